// PyTorch's schedule CSV, whatever it holds, is a schedule or an InputError; what is proved is
// written with its communication and comes back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "schedules/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pipeledger;
  try {
    const Schedule schedule =
        read_torch_csv(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!validate(schedule).empty()) return 0;
    const std::string compute = to_torch_csv(schedule);
    PIPELEDGER_CHECK(read_torch_csv(compute, "").ops == schedule.ops, "{}", compute);
    const std::string comms = to_torch_comms_csv(schedule);
    PIPELEDGER_CHECK(read_torch_csv(comms, "").ops == schedule.ops, "{}", comms);
  } catch (const InputError&) {
  }
  return 0;
}
