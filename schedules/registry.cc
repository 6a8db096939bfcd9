#include <fmt/format.h>

#include "base/text.h"
#include "schedules/schedule.h"
#include "schedules/zero_bubble.h"

namespace pipeledger {

const std::vector<ScheduleEntry>& schedule_registry() {
  // clang-format off
  static const std::vector<ScheduleEntry> entries = {
      {"gpipe", "every forward, then every backward; m microbatches in flight", check_gpipe, gpipe},
      {"1f1b", "one forward, one backward; at most p - r in flight on rank r", check_one_f_one_b, one_f_one_b},
      {"interleaved", "Megatron's 1F1B over v chunks a rank; v times smaller bubble", check_interleaved, interleaved},
      {"zb-h1", "1f1b with late weight gradients; a third of its bubble, p in flight", check_zb_h1, zb_h1},
      {"zb-h2", "and twice the warmup; no bubble in a rank's span, 2p - 1 in flight", check_zb_h2, zb_h2},
      {"interleaved-zb", "PyTorch's interleaved zero bubble over v chunks a rank", check_interleaved_zb, interleaved_zb},
      {"zb-1p", "planned from costs, at most p microbatches held", check_zb_1p, zb_1p},
      {"zb-2p", "planned from costs, at most 2p microbatches held", check_zb_2p, zb_2p},
      {"zb-auto", "planned from costs, at most costs.memory_limit held", check_zb_auto, zb_auto},
      {"zbv", "PyTorch's ZBV, folded back over 2 chunks; p in flight, no bubble", check_zbv, zbv},
      {"zbv-auto", "ZBV planned from costs (zero-bubble repository)", check_zbv_auto, zbv_auto},
      {"v-half", "folded back; half of 1f1b's bubble and memory", check_v_half, v_half},
      {"v-min", "folded back; a third of 1f1b's memory", check_v_min, v_min},
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
