// The registry keeps its word: traits are true of every order, written orders are recognised.
#include <gtest/gtest.h>

#include <algorithm>

#include "schedules/schedule.h"
#include "tests/schedules/legal.h"

namespace pipeledger {
namespace {

bool has(const Schedule& schedule, auto is) {
  return std::ranges::any_of(schedule.ops,
                             [&](const auto& ops) { return std::ranges::any_of(ops, is); });
}

TEST(Registry, TraitsAreTrueOfEveryOrder) {
  for (const ScheduleEntry& entry : schedule_registry()) {
    SCOPED_TRACE(entry.name);
    bool splits_backward = false, overlaps_pairs = false, takes_slices = false;
    for (const int p : {1, 2, 3, 4, 6})
      for (const int v : {1, 2, 4})
        for (const int m : {1, 2, 4, 6, 12, 16})
          for (const int q : {1, 2}) {
            ScheduleShape shape{p, v, m};
            shape.num_slices = q;
            if (!is_legal(entry, shape)) continue;
            const Schedule schedule = make_schedule(entry.name, shape);
            EXPECT_EQ(schedule.name, entry.name);
            EXPECT_EQ(schedule.registered, &entry);
            EXPECT_EQ(schedule.placement, entry.traits.placement);
            splits_backward |= has(schedule, [](const Op& op) { return op.kind == OpKind::W; });
            overlaps_pairs |= has(schedule, [](const Op& op) { return op.overlaps_next; });
            takes_slices |= schedule.num_slices > 1;
          }
    EXPECT_EQ(splits_backward, entry.traits.splits_backward);
    EXPECT_EQ(overlaps_pairs, entry.traits.overlaps_pairs);
    EXPECT_EQ(takes_slices, entry.traits.takes_slices);
  }
}

TEST(Registry, EveryChoiceOfMegatronIsThere) {
  EXPECT_EQ(megatron_schedule(MegatronChoice::one_chunk).name, "1f1b");
  EXPECT_EQ(megatron_schedule(MegatronChoice::virtual_stages).name, "interleaved");
  EXPECT_EQ(megatron_schedule(MegatronChoice::expert_overlap).name, "combined-1f1b");
}

TEST(Registry, AWrittenOrderIsRecognised) {
  int num_recognised = 0;
  for (const ScheduleEntry& entry : schedule_registry()) {
    SCOPED_TRACE(entry.name);
    for (const int v : {1, 2, 4}) {
      const ScheduleShape shape{4, v, 8};
      if (!is_legal(entry, shape) || entry.traits.plans_from_costs) continue;
      if (v == 1 && entry.traits.needs_virtual_stages) continue;
      const Schedule read = parse_schedule(to_text(make_schedule(entry.name, shape)));
      EXPECT_EQ(read.registered, nullptr);
      const ScheduleEntry* found = recognise(read, shape);
      ASSERT_NE(found, nullptr);
      // Several may have the same orders, as grouped-interleaved and pipe-offload do.
      EXPECT_EQ(make_schedule(found->name, shape).ops, read.ops);
      if (entry.traits.megatron_choice != MegatronChoice::never) {
        EXPECT_EQ(found, &entry);
      }
      ++num_recognised;
    }
  }
  EXPECT_GE(num_recognised, 20);
}

TEST(Registry, OneMicrobatchIsTheOrderThatMegatronTakes) {
  const ScheduleShape shape{2, 1, 1};
  EXPECT_EQ(recognise(make_schedule("gpipe", shape), shape)->name, "1f1b");
}

TEST(Registry, AnotherOrderIsNobodys) {
  const ScheduleShape shape{2, 1, 4};
  Schedule schedule = make_schedule("1f1b", shape);
  schedule.ops[0] = make_schedule("gpipe", shape).ops[0];
  ASSERT_TRUE(validate(schedule).empty());
  const ScheduleEntry* found = recognise(schedule, shape);
  EXPECT_EQ(found, nullptr);
}

}  // namespace
}  // namespace pipeledger
