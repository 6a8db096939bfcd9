// A scenario's schedule: from the registry by name, or from a file.
#include "spec/scenario_schedule.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "base/text.h"
#include "schedules/formats.h"
#include "schedules/shape.h"
#include "spec/check_rules.h"

namespace pipeledger {
namespace {

constexpr const char* kFileField = "sim.schedule_file";

/// What of the file's schedule is not the scenario's.
std::vector<Problem> check_fits(const Schedule& schedule, const ScheduleShape& shape) {
  std::vector<Problem> problems;
  const auto expect = [&](int value, int wanted, std::string_view what, std::string_view where) {
    if (value == wanted) return;
    problems.push_back({kFileField, fmt::format("{} has {} {}, the scenario {} ({})", schedule.name,
                                                value, what, wanted, where)});
  };
  expect(schedule.num_ranks, shape.num_ranks, "ranks", kRanksField);
  expect(schedule.num_stages(), shape.num_ranks * shape.num_chunks, "stages",
         fmt::format("{} ranks of {} chunks", shape.num_ranks, shape.num_chunks));
  expect(schedule.num_microbatches, shape.num_microbatches, "microbatches", kMicrobatchesField);
  if (shape.num_slices > 1) expect(schedule.num_slices, shape.num_slices, "slices", kSlicesField);
  check_no_groups(shape, schedule.name, problems);
  return problems;
}

/// What a recognised schedule needs, as if it had been named.
std::vector<Problem> check_recognised(const Scenario& scenario, const ScheduleEntry& schedule) {
  Findings findings(FieldReport{.positions = scenario.positions});
  check_exchanges(scenario, schedule, findings);
  return findings.problems;
}

Schedule from_file(const Scenario& scenario, const ScheduleShape& shape) {
  const std::filesystem::path path = scenario.sim.schedule_file;
  Schedule schedule = read_schedule(read_file(path), path.string());
  schedule.name = path.filename().string();
  std::vector<Problem> problems = validate(schedule);
  for (Problem& problem : problems) problem.file = path.string();
  if (problems.empty()) problems = check_fits(schedule, shape);
  if (problems.empty()) {
    schedule.registered = recognise(schedule, shape);
    if (schedule.registered) problems = check_recognised(scenario, *schedule.registered);
  }
  if (!problems.empty()) throw InputError(std::move(problems));
  return schedule;
}

}  // namespace

ScheduleShape schedule_shape(const Scenario& scenario) {
  const std::int64_t num_microbatches = scenario.train.num_microbatches;
  if (num_microbatches > kMaxOps) {
    throw InputError(
        {{.field = kMicrobatchesField,
          .message = fmt::format("{} microbatches are more than the {} ops a schedule "
                                 "may hold; take a smaller global batch",
                                 with_commas(num_microbatches), with_commas(kMaxOps))}});
  }
  const Parallel& parallel = scenario.parallel;
  return {.num_ranks = parallel.pipeline_model_parallel_size,
          .num_chunks = parallel.virtual_pipeline_model_parallel_size,
          .num_microbatches = static_cast<int>(num_microbatches),
          .microbatch_group_size_per_vp_stage = parallel.microbatch_group_size_per_vp_stage,
          .num_slices = scenario.sim.num_seq_splits,
          .samples_per_microbatch =
              scenario.train.micro_batch_size * scenario.parallel.data_parallel_size};
}

Schedule make_schedule(const Scenario& scenario) {
  const ScheduleShape shape = schedule_shape(scenario);
  if (scenario.sim.schedule_file.empty()) return make_schedule(scenario.sim.schedule, shape);
  return from_file(scenario, shape);
}

}  // namespace pipeledger
