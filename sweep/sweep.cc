#include "sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/check.h"
#include "base/problem.h"

namespace pipeledger {
namespace {

Outcome wrong(std::vector<std::string> problems) {
  return Outcome{.problems = std::move(problems)};
}

Outcome evaluate_point(const SweepRequest& request, std::size_t point, EngineKind engine) {
  const auto load = [&] {
    Scenario scenario = request.load(point_overrides(request.variations, point));
    for (const Constraint& constraint : request.constraints) {
      if (holds(constraint, scenario)) continue;
      throw InputError({{.message = fmt::format("left out by --where '{}'", constraint.text)}});
    }
    return scenario;
  };
  return outcome_of(load, engine);
}

/// Outcomes by point: those that the journal holds, the others computed and noted down.
class Outcomes {
 public:
  Outcomes(const SweepRequest& request, const Executor& executor, Journal* journal,
           const SweepProgress& progress)
      : executor_(executor),
        journal_(journal),
        progress_(progress),
        work_(sweep_work(request)),
        num_points_(num_points(request.variations)) {}

  std::map<std::size_t, Outcome> compute(EngineKind engine,
                                         const std::vector<std::size_t>& points) {
    std::map<std::size_t, Outcome> outcomes;
    std::vector<std::size_t> missing;
    const std::size_t first = engine == EngineKind::simgrid ? num_points_ : 0;
    for (const std::size_t point : points) {
      const Outcome* known = find(engine, point);
      if (known != nullptr) {
        outcomes[point] = *known;
      } else {
        missing.push_back(first + point);
      }
    }
    executor_(missing, work_, [&](const WorkDone& done) {
      const std::size_t point = done.index - first;
      const bool lost = !done.lost.empty();
      outcomes[point] = lost ? wrong({done.lost}) : outcome_from_json(done.result);
      if (journal_ != nullptr && !lost) journal_->add(engine, point, outcomes[point]);
      if (progress_) progress_(outcomes.size(), points.size());
    });
    return outcomes;
  }

 private:
  const Outcome* find(EngineKind engine, std::size_t point) const {
    if (journal_ == nullptr) return nullptr;
    const auto& found = journal_->found(engine);
    const auto at = found.find(point);
    return at == found.end() ? nullptr : &at->second;
  }

  const Executor& executor_;
  Journal* journal_;
  const SweepProgress& progress_;
  Work work_;
  std::size_t num_points_;
};

/// Marks the points that nothing beats.
void mark_front(SweepResult& result) {
  std::vector<SweepPoint*> candidates;
  for (SweepPoint& point : result.points) {
    point.on_front = false;
    if (point.outcome.legal() && point.outcome.fits()) candidates.push_back(&point);
  }
  if (candidates.empty()) {
    for (SweepPoint& point : result.points) {
      if (point.outcome.legal()) candidates.push_back(&point);
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const SweepPoint* a, const SweepPoint* b) {
                     const double cost_a = cost(a->outcome);
                     const double cost_b = cost(b->outcome);
                     if (cost_a != cost_b) return cost_a < cost_b;
                     return a->outcome.peak_allocated_bytes < b->outcome.peak_allocated_bytes;
                   });
  const Outcome* last = nullptr;
  for (SweepPoint* point : candidates) {
    const bool smaller =
        last == nullptr || point->outcome.peak_allocated_bytes < last->peak_allocated_bytes;
    const bool ties = last != nullptr && cost(point->outcome) == cost(*last) &&
                      point->outcome.peak_allocated_bytes == last->peak_allocated_bytes;
    point->on_front = smaller || ties;
    if (smaller) last = &point->outcome;
  }
}

}  // namespace

Work sweep_work(const SweepRequest& request) {
  const std::size_t n = num_points(request.variations);
  return [&request, n](std::size_t index) {
    if (index < n) return to_json(evaluate_point(request, index, EngineKind::fast));
    return in_own_process(
        [&] { return to_json(evaluate_point(request, index - n, EngineKind::simgrid)); });
  };
}

SweepResult sweep(const SweepRequest& request, const Executor& executor, Journal* journal,
                  const SweepProgress& progress) {
  SweepResult result{.variations = request.variations};
  result.points.resize(num_points(request.variations));
  std::vector<std::size_t> all(result.points.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  for (const std::size_t i : all)
    result.points[i].overrides = point_overrides(request.variations, i);

  Outcomes outcomes(request, executor, journal, progress);
  const EngineKind first =
      request.mode == SweepMode::simgrid ? EngineKind::simgrid : EngineKind::fast;
  for (auto& [i, outcome] : outcomes.compute(first, all)) {
    result.points[i].outcome = std::move(outcome);
    result.points[i].confirmed = first == EngineKind::simgrid;
  }
  mark_front(result);
  if (request.mode != SweepMode::screen) return result;

  // Contention may move a point behind another, which then has to be confirmed too.
  for (;;) {
    std::vector<std::size_t> front;
    for (const std::size_t i : all) {
      if (result.points[i].on_front && !result.points[i].confirmed) front.push_back(i);
    }
    if (front.empty()) return result;
    for (auto& [i, outcome] : outcomes.compute(EngineKind::simgrid, front)) {
      SweepPoint& point = result.points[i];
      point.screened_step_time_s = point.outcome.step_time_s;
      point.outcome = std::move(outcome);
      point.confirmed = true;
    }
    mark_front(result);
  }
}

double cost(const Outcome& outcome) {
  return outcome.step_time_s * static_cast<double>(outcome.num_gpus) /
         static_cast<double>(std::max<std::int64_t>(outcome.tokens_per_step, 1));
}

bool step_times_compare(const SweepResult& result) {
  const Outcome* first = nullptr;
  for (const SweepPoint& point : result.points) {
    if (!point.outcome.legal()) continue;
    if (first == nullptr) first = &point.outcome;
    if (point.outcome.num_gpus != first->num_gpus ||
        point.outcome.tokens_per_step != first->tokens_per_step)
      return false;
  }
  return true;
}

std::vector<const SweepPoint*> ranked(const SweepResult& result) {
  std::vector<const SweepPoint*> points;
  for (const SweepPoint& point : result.points) {
    if (point.outcome.legal()) points.push_back(&point);
  }
  std::stable_sort(points.begin(), points.end(), [](const SweepPoint* a, const SweepPoint* b) {
    return cost(a->outcome) < cost(b->outcome);
  });
  return points;
}

std::vector<Reason> reasons(const SweepResult& result) {
  std::map<std::string, Reason> by_field;
  for (const SweepPoint& point : result.points) {
    for (const std::string& problem : point.outcome.problems) {
      // Values differ from point to point; what they break is the same rule of the same field.
      Reason& reason = by_field[problem.substr(0, problem.find(':'))];
      if (reason.num_points++ == 0) reason.example = problem;
    }
  }
  std::vector<Reason> list;
  for (auto& [field, reason] : by_field) list.push_back(std::move(reason));
  std::stable_sort(list.begin(), list.end(),
                   [](const Reason& a, const Reason& b) { return a.num_points > b.num_points; });
  return list;
}

std::string last_part(const std::string& path) { return path.substr(path.rfind('.') + 1); }

}  // namespace pipeledger
