// The registry and what is asked of it: names, Megatron-LM's own choice, orders read from a file.
#include "base/registry.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "schedules/registered_schedules.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"

namespace pipeledger {
namespace {

bool has(const Schedule& schedule, auto is) {
  return std::ranges::any_of(
      schedule.ops, [&](const std::vector<Op>& ops) { return std::ranges::any_of(ops, is); });
}

/// Whether an order of this entry can be the schedule's: what can be told without making one.
bool may_be(const Schedule& schedule, const ScheduleTraits& traits) {
  return traits.placement == schedule.placement && !traits.plans_from_costs &&
         (traits.takes_slices || schedule.num_slices == 1) &&
         (schedule.num_chunks > 1 || !traits.needs_virtual_stages) &&
         (traits.splits_backward ||
          !has(schedule, [](const Op& op) { return op.kind == OpKind::W; })) &&
         (traits.overlaps_pairs || !has(schedule, [](const Op& op) { return op.overlaps_next; }));
}

/// The schedule is one that the entry makes for the shape.
bool is_made_by(const Schedule& schedule, const ScheduleShape& shape, const ScheduleEntry& entry) {
  if (!may_be(schedule, entry.traits) || !entry.check(shape).empty()) return false;
  if (entry.check_microbatches && !entry.check_microbatches(shape).empty()) return false;
  const Schedule made = entry.make(shape);
  return made.ops == schedule.ops && made.goes_up == schedule.goes_up;
}

}  // namespace

const std::vector<ScheduleEntry>& schedule_registry() {
  static const std::vector<ScheduleEntry> entries = registered_schedules();
  return entries;
}

const ScheduleEntry& find_schedule(std::string_view name) {
  if (const ScheduleEntry* entry = find_named(schedule_registry(), name)) return *entry;
  throw InputError({{.field = "sim.schedule",
                     .message = unknown_name(name, "a schedule", schedule_registry())}});
}

const ScheduleEntry& megatron_schedule(MegatronChoice choice) {
  const auto& entries = schedule_registry();
  const auto found = std::ranges::find(
      entries, choice, [](const ScheduleEntry& entry) { return entry.traits.megatron_choice; });
  PIPELEDGER_CHECK(found != entries.end(), "no schedule for choice {}", static_cast<int>(choice));
  return *found;
}

Schedule make_schedule(std::string_view name, const ScheduleShape& shape) {
  const ScheduleEntry& entry = find_schedule(name);
  std::vector<Problem> problems = entry.check(shape);
  if (problems.empty() && entry.check_microbatches) problems = entry.check_microbatches(shape);
  if (!entry.traits.plans_from_costs && shape.costs != ScheduleCosts{}) {
    problems.push_back({kCostsField, fmt::format("{} is not planned from costs; leave them out, or "
                                                 "take zb-auto or zbv-auto",
                                                 name)});
  }
  if (!problems.empty()) throw InputError(std::move(problems));
  Schedule schedule = entry.make(shape);
  schedule.registered = &entry;
  return schedule;
}

const ScheduleEntry* recognise(const Schedule& schedule, const ScheduleShape& shape) {
  std::vector<const ScheduleEntry*> candidates;
  for (const ScheduleEntry& entry : schedule_registry()) candidates.push_back(&entry);
  std::ranges::stable_partition(candidates, [](const ScheduleEntry* entry) {
    return entry->traits.megatron_choice != MegatronChoice::never;
  });
  const auto found = std::ranges::find_if(
      candidates, [&](const ScheduleEntry* entry) { return is_made_by(schedule, shape, *entry); });
  return found == candidates.end() ? nullptr : *found;
}

}  // namespace pipeledger
