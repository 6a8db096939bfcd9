#include <fmt/format.h>

#include "base/text.h"
#include "schedules/schedule.h"

namespace pipeledger {

const std::vector<ScheduleEntry>& schedule_registry() {
  // clang-format off
  static const std::vector<ScheduleEntry> entries = {
      {"gpipe", "every forward, then every backward; m microbatches in flight", check_gpipe, gpipe},
      {"1f1b", "one forward, one backward; at most p - r in flight on rank r", check_one_f_one_b, one_f_one_b},
      {"interleaved", "Megatron's 1F1B over v chunks a rank; v times smaller bubble", check_interleaved, interleaved},
  };
  // clang-format on
  return entries;
}

const ScheduleEntry& find_schedule(std::string_view name) {
  std::vector<std::string> names;
  for (const ScheduleEntry& entry : schedule_registry()) {
    if (entry.name == name) return entry;
    names.emplace_back(entry.name);
  }
  const std::string near = nearest(name, names);
  throw InputError(
      {{.field = "sim.schedule",
        .message = fmt::format("{} is not a schedule; {}known: {}", name,
                               near.empty() ? "" : "did you mean " + near + "? ", join(names))}});
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  const ScheduleEntry& entry = find_schedule(name);
  std::vector<Problem> problems = entry.check(shape);
  if (!problems.empty()) throw InputError(std::move(problems));
  return entry.make(shape);
}

}  // namespace pipeledger
