// What the schedule's entry in the registry asks of a scenario; the rules themselves are the
// schedules'.
#include "base/registry.h"
#include "schedules/schedule.h"
#include "schedules/shape.h"
#include "spec/check_rules.h"
#include "spec/scenario_schedule.h"

namespace pipeledger {
namespace {

/// Told in the file's own number, the global batch.
void check_microbatches(const Scenario& scenario, const ScheduleEntry& schedule,
                        Findings& findings) {
  // More than a schedule may hold is told when it is made.
  if (!schedule.check_microbatches || scenario.train.num_microbatches > kMaxOps) return;
  const ScheduleShape shape = schedule_shape(scenario);
  if (!schedule.check(shape).empty()) return;
  for (const Problem& problem : schedule.check_microbatches(shape)) {
    if (problem.field == kMicrobatchesField) {
      findings.add(problem.field, problem.message,
                   {kMicroBatch, kDataSize, kPipelineSize, kGroupSize, "cluster"});
    } else {
      findings.add(problem.field, problem.message, {kPipelineSize});
    }
  }
}

}  // namespace

void check_exchanges(const Scenario& scenario, const ScheduleEntry& schedule, Findings& findings) {
  const Parallel& parallel = scenario.parallel;
  const bool is_interleaved = schedule.traits.megatron_calls == MegatronCalls::interleaved &&
                              parallel.virtual_pipeline_model_parallel_size > 1;
  const bool is_batched = scenario.sim.runtime == Runtime::megatron && is_interleaved &&
                          !scenario.sim.overlap_p2p_communication;
  if (parallel.pipeline_model_parallel_size == 2 && is_batched)
    findings.add("sim.overlap_p2p_communication",
                 "without it, virtual stages need pipeline_model_parallel_size of at least 3: with "
                 "2, both directions join the same two ranks",
                 {kPipelineSize});
}

void check_schedule(const Scenario& scenario, bool is_batch_whole, Findings& findings) {
  if (scenario.sim.schedule.empty()) return;  // a file's: make_schedule
  const ScheduleEntry* schedule = find_named(schedule_registry(), scenario.sim.schedule);
  if (!schedule)
    return findings.reject("sim.schedule",
                           unknown_name(scenario.sim.schedule, "a schedule", schedule_registry()));
  check_exchanges(scenario, *schedule, findings);
  if (is_batch_whole) check_microbatches(scenario, *schedule, findings);
}

}  // namespace pipeledger
