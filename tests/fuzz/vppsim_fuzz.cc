// A VppSim file, whatever it holds, is a schedule or an InputError; what is proved is written and
// comes back.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "schedules/formats.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pipeledger;
  try {
    const Schedule schedule =
        read_vppsim(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    if (!validate(schedule).empty()) return 0;
    const std::string text = to_vppsim(schedule);
    PIPELEDGER_CHECK(read_vppsim(text, "").ops == schedule.ops, "{}", text);
  } catch (const InputError&) {
  }
  return 0;
}
