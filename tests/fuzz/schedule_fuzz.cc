// A schedule's text, whatever it holds, is a schedule or an InputError; what is proved plays to its
// end and comes back from its own text.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "schedules/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace pipeledger;
  try {
    const Schedule schedule =
        parse_schedule(std::string_view(reinterpret_cast<const char*>(data), size), "fuzz");
    const std::string text = to_text(schedule);
    PIPELEDGER_CHECK(parse_schedule(text).ops == schedule.ops, "{}", text);
    if (!validate(schedule).empty()) return 0;
    const Grid grid = play(schedule);
    for (std::size_t rank = 0; rank < schedule.ops.size(); ++rank) {
      PIPELEDGER_CHECK(grid.spans[rank].size() == schedule.ops[rank].size(), "{}", text);
    }
    to_grid(schedule);
    to_table(schedule, 80);
    to_json(schedule);
  } catch (const InputError&) {
  }
  return 0;
}
