#include <fmt/format.h>

#include <filesystem>

#include "base/file.h"
#include "schedules/formats.h"
#include "schedules/shape.h"

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

Schedule from_file(const std::filesystem::path& path, const ScheduleShape& shape) {
  Schedule schedule = read_schedule(read_file(path), path.string());
  schedule.name = path.filename().string();
  std::vector<Problem> problems = validate(schedule);
  for (Problem& problem : problems) problem.file = path.string();
  if (problems.empty()) problems = check_fits(schedule, shape);
  if (!problems.empty()) throw InputError(std::move(problems));
  return schedule;
}

}  // namespace

Schedule make_schedule(const Scenario& scenario) {
  const ScheduleShape shape = schedule_shape(scenario);
  if (scenario.sim.schedule_file.empty()) return make_schedule(scenario.sim.schedule, shape);
  return from_file(scenario.sim.schedule_file, shape);
}

}  // namespace pipeledger
