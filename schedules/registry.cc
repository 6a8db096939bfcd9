#include <fmt/format.h>

#include "base/text.h"
#include "schedules/generators.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
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
      {"zb-1p", "planned from costs, at most p microbatches held", check_zb_1p, zb_1p, true},
      {"zb-2p", "planned from costs, at most 2p microbatches held", check_zb_2p, zb_2p, true},
      {"zb-auto", "planned from costs, at most costs.memory_limit held", check_zb_auto, zb_auto, true},
      {"zbv", "PyTorch's ZBV, folded back over 2 chunks; p in flight, no bubble", check_zbv, zbv},
      {"zbv-auto", "ZBV planned from costs (zero-bubble repository)", check_zbv_auto, zbv_auto, true},
      {"v-1f1b", "1f1b folded back over 2 chunks, backward whole; 2/3 of its memory", check_v_1f1b, v_1f1b},
      {"v-auto", "folded back; the shortest of many within costs.memory_limit", check_v_auto, v_auto, true},
      {"v-half", "folded back; half of 1f1b's bubble and memory", check_v_half, v_half},
      {"v-min", "folded back; a third of 1f1b's memory", check_v_min, v_min},
      {"eager-1f1b", "1f1b with twice the warmup, so that messages hide; 2(p - r) - 1 in flight", check_eager_one_f_one_b, eager_one_f_one_b},
      {"looped-bfs", "all microbatches through a chunk, then the next; vm in flight", check_looped_bfs, looped_bfs},
      {"torch-interleaved", "PyTorch's interleaved: groups of equal size, m < p too", check_torch_interleaved, torch_interleaved},
      {"low-memory-interleaved", "interleaved with the shortest warmup; vp - r chunks in flight", check_low_memory_interleaved, low_memory_interleaved},
      {"grouped-interleaved", "groups of p/2 to p, backward split; (v - 1)g + p - r chunks", check_grouped_interleaved, grouped_interleaved},
      {"pipe-offload", "the order of grouped-interleaved, for offload to the host", check_pipe_offload, pipe_offload},
      {"combined-1f1b", "Megatron's interleaved with overlapped pairs, for expert exchange", check_combined_one_f_one_b, combined_one_f_one_b},
      {"seq1f1b", "1f1b over slices of the sequence; p - 1 - r + q slices in flight", check_seq1f1b, seq1f1b},
      {"chimera", "two directions, two copies of each stage; at most p in flight", check_chimera, chimera},
      {"dualpipe", "two directions, overlapped pairs; p + 1 in flight", check_dualpipe, dualpipe},
      {"dualpipev", "dualpipe folded into a V, one copy; 2p + 1 chunks in flight", check_dualpipev, dualpipev},
      {"hanayo", "v/2 waves over the ranks; at most vp chunks in flight", check_hanayo, hanayo},
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
  if (!entry.plans_from_costs && shape.costs != ScheduleCosts{}) {
    problems.push_back({kCostsField, fmt::format("{} is not planned from costs; leave them out, or "
                                                 "take zb-auto or zbv-auto",
                                                 name)});
  }
  if (!problems.empty()) throw InputError(std::move(problems));
  return entry.make(shape);
}

}  // namespace pipeledger
