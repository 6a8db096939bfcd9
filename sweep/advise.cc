#include "sweep/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/json_text.h"
#include "base/override.h"
#include "base/table.h"
#include "base/text.h"
#include "ledger/report/overheads.h"
#include "sim/allocation.h"

namespace pipeledger {
namespace {

using Load = std::function<Scenario(const std::vector<Override>&)>;

/// Plays each trial that is not idle, all of them shared out.
class Player {
 public:
  Player(const Load& load, EngineKind engine, const Executor& executor,
         const SweepProgress& progress)
      : load_(load), engine_(engine), executor_(executor), progress_(progress) {}

  void play(std::vector<Trial*> trials) const {
    std::erase_if(trials, [](const Trial* trial) { return !trial->idle.empty(); });
    std::vector<std::size_t> indices(trials.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    std::size_t done = 0;
    const Work work = [&](std::size_t i) {
      if (engine_ == EngineKind::fast) return one(trials[i]->changes);
      return in_own_process([&] { return one(trials[i]->changes); });
    };
    executor_(indices, work, [&](const WorkDone& piece) {
      trials[piece.index]->outcome =
          piece.lost.empty() ? outcome_from_json(piece.result) : Outcome{.problems = {piece.lost}};
      if (progress_) progress_(++done, trials.size());
    });
  }

 private:
  std::string one(const std::vector<Override>& changes) const {
    return to_json(outcome_of([&] { return load_(changes); }, engine_));
  }

  const Load& load_;
  EngineKind engine_;
  const Executor& executor_;
  const SweepProgress& progress_;
};

std::string gib(std::int64_t bytes) { return to_gib(Bytes(bytes)); }

std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

/// Which symptoms the step shows, and what says so.
std::vector<Advice::Section> diagnose(const Outcome& base) {
  // Beyond these shares it is worth a look; a remedy that does not help shows itself.
  constexpr double kHighLogits = 0.10;
  constexpr double kHighBubble = 0.05;
  constexpr double kHighExposed = 0.03;
  std::vector<Advice::Section> sections;
  const auto add = [&](Symptom symptom, std::string finding) {
    sections.push_back({.symptom = symptom, .finding = std::move(finding), .trials = {}});
  };
  if (!base.fits())
    add(Symptom::out_of_memory,
        fmt::format("out of memory: the peak of rank {}, {}, is {} over the GPU's {}",
                    base.worst_rank, gib(base.peak_allocated_bytes),
                    gib(base.peak_allocated_bytes - base.capacity_bytes),
                    gib(base.capacity_bytes)));
  const double resident = static_cast<double>(base.peak_resident_bytes);
  if (!base.fits() && resident > 0.5 * static_cast<double>(base.capacity_bytes))
    add(Symptom::resident_too_big,
        fmt::format("resident too big: {} of rank {} are weights, gradients and optimizer, {} of "
                    "the GPU",
                    gib(base.peak_resident_bytes), base.worst_rank,
                    percent(resident / static_cast<double>(base.capacity_bytes))));
  const double logits = static_cast<double>(base.last_rank_logits_bytes) /
                        static_cast<double>(std::max<std::int64_t>(base.last_rank_peak_bytes, 1));
  const bool last_is_over = base.last_rank_peak_bytes > base.capacity_bytes;
  if (logits > kHighLogits && (last_is_over || base.fits()))
    add(Symptom::last_stage_high,
        fmt::format("last stage high: {} of the last rank's peak, {}, are logits", percent(logits),
                    gib(base.last_rank_peak_bytes)));
  const double exposed = base.exposed_comm_s / base.step_time_s;
  if (base.bubble_fraction > kHighBubble || exposed > kHighExposed)
    add(Symptom::slow,
        fmt::format("slow: the bubble takes {} of the pipeline's span, exposed communication {} "
                    "of the step",
                    percent(base.bubble_fraction), percent(exposed)));
  return sections;
}

Trial trial_of(const Remedy& remedy, const Scenario& scenario) {
  Remedy::Plan plan = remedy.plan(scenario);
  return {.remedies = {remedy.name},
          .changes = std::move(plan.changes),
          .note = std::move(plan.note),
          .idle = std::move(plan.idle)};
}

/// Both sets of changes; nullopt when they set a field to different values.
std::optional<Trial> together(const Trial& a, const Trial& b) {
  Trial both = a;
  both.outcome = {};
  for (const Override& change : b.changes) {
    const auto same =
        std::find_if(both.changes.begin(), both.changes.end(),
                     [&](const Override& other) { return other.path == change.path; });
    if (same == both.changes.end()) {
      both.changes.push_back(change);
    } else if (same->value != change.value) {
      return std::nullopt;
    }
  }
  both.remedies.insert(both.remedies.end(), b.remedies.begin(), b.remedies.end());
  if (both.note.empty()) both.note = b.note;
  return both;
}

/// Pairs and triples of the remedies that can be had alone.
std::vector<Trial> combine(const std::vector<Trial>& single) {
  constexpr std::size_t kMaxCombinations = 600;
  std::vector<Trial> combinations;
  for (std::size_t i = 0; i < single.size(); ++i) {
    for (std::size_t j = i + 1; j < single.size(); ++j) {
      const std::optional<Trial> pair = together(single[i], single[j]);
      if (!pair || combinations.size() >= kMaxCombinations) continue;
      combinations.push_back(*pair);
      for (std::size_t k = j + 1; k < single.size(); ++k) {
        std::optional<Trial> triple = together(*pair, single[k]);
        if (triple && combinations.size() < kMaxCombinations)
          combinations.push_back(std::move(*triple));
      }
    }
  }
  return combinations;
}

bool is_good(const Trial& trial) {
  return trial.idle.empty() && trial.outcome.legal() && trial.outcome.fits();
}

/// Fastest first; of equals the one that changes least.
void sort_by_cost(std::vector<Trial>& trials) {
  std::stable_sort(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
    const double cost_a = cost(a.outcome);
    const double cost_b = cost(b.outcome);
    if (cost_a != cost_b) return cost_a < cost_b;
    return a.remedies.size() < b.remedies.size();
  });
}

std::string names(const Trial& trial) {
  std::vector<std::string> list(trial.remedies.begin(), trial.remedies.end());
  return join(list, " + ");
}

void add_row(const Trial& trial, const Outcome& base, TextTable& table) {
  std::string remedies = names(trial);
  if (remedies.size() > 30) {
    table.row(remedies);
    remedies.clear();
  }
  if (!trial.idle.empty()) return table.row(remedies, fmt::format("-  {}", trial.idle));
  const Outcome& outcome = trial.outcome;
  if (!outcome.legal()) return table.row(remedies, fmt::format("-  {}", outcome.problems.front()));
  const auto change = [](double now, double before) {
    return fmt::format("{:+.1f} %", 100 * (now / before - 1));
  };
  table.row(remedies, gib(outcome.peak_allocated_bytes),
            change(static_cast<double>(outcome.peak_allocated_bytes),
                   static_cast<double>(base.peak_allocated_bytes)),
            to_text(Seconds(outcome.step_time_s)), change(cost(outcome), cost(base)),
            outcome.fits() ? "  fits" : "  does not fit",
            trial.note.empty() ? "" : ", " + trial.note);
}

std::string table_of(const std::vector<Trial>& trials, const Outcome& base) {
  TextTable table(
      {left("remedy", 30), right("worst peak", 10), right("", 9), right("step", 9), right("", 9)});
  for (const Trial& trial : trials) add_row(trial, base, table);
  return table.text();
}

std::string settings(const Trial& trial) {
  std::string text;
  for (const Override& change : trial.changes)
    text += fmt::format("    --set {}={}\n", change.path, change.value);
  return text;
}

Json to_object(const Trial& trial) {
  Json object;
  object["remedies"] = trial.remedies;
  object["set"] = Json::object();
  for (const Override& change : trial.changes) object["set"][change.path] = change.value;
  if (!trial.note.empty()) object["note"] = trial.note;
  if (!trial.idle.empty()) {
    object["idle"] = trial.idle;
  } else {
    object["outcome"] = Json::parse(to_json(trial.outcome));
    if (trial.outcome.legal()) object["fits"] = trial.outcome.fits();
  }
  return object;
}

constexpr std::string_view kSymptomNames[] = {"out_of_memory", "resident_too_big",
                                              "last_stage_high", "slow", "fragmented"};

/// The tensors fit, yet what the allocator reserves for them, with CUDA and NCCL, does not: the
/// rank that needs most, under a setting of the allocator.
struct Reservation {
  int rank = 0;
  PlayedAllocator played;
  Bytes outside{};

  Bytes need() const { return played.reserved + outside; }
};
std::optional<Reservation> fullest_reservation(const Scenario& scenario, const AllocConf& conf) {
  const AllocationModel model(scenario);
  std::optional<Reservation> most;
  for (int rank = 0; rank < scenario.parallel.pipeline_model_parallel_size; ++rank) {
    const auto played = played_allocator(model, Rank{rank}, conf);
    if (!played) return std::nullopt;
    const Reservation each{rank, *played, total(device_overheads(scenario, Rank{rank})).typical};
    if (!most || each.need() > most->need()) most = each;
  }
  return most;
}

std::optional<Advice::Section> fragmented(const Scenario& scenario, const Outcome& base) {
  if (!base.fits()) return std::nullopt;
  const auto now = fullest_reservation(scenario, scenario.sim.alloc_conf);
  const Bytes capacity(base.capacity_bytes);
  if (!now || now->need() <= capacity) return std::nullopt;
  Advice::Section section{
      .symptom = Symptom::fragmented,
      .finding = fmt::format("fragmented: the tensors of rank {}, {}, fit, but the allocator "
                             "reserves {} and CUDA and NCCL take {}: {} of {}",
                             now->rank, to_gib(now->played.allocated), to_gib(now->played.reserved),
                             to_gib(now->outside), to_gib(now->need()), to_gib(capacity)),
      .trials = {}};
  for (const Remedy& remedy : remedies(section.symptom)) {
    Trial trial = trial_of(remedy, scenario);
    const auto then = fullest_reservation(scenario, {.expandable_segments = true});
    if (then && trial.idle.empty())
      trial.note = fmt::format("reserves {}, in all {}", to_gib(then->played.reserved),
                               to_gib(then->need()));
    section.trials.push_back(std::move(trial));
  }
  return section;
}

}  // namespace

Advice advise(const Load& load, EngineKind engine, const Executor& executor,
              const SweepProgress& progress) {
  const Scenario scenario = load({});
  const Player player(load, engine, executor, progress);
  Trial unchanged{.remedies = {"as it is"}};
  player.play({&unchanged});
  if (!unchanged.outcome.legal())
    throw InputError({{.message = unchanged.outcome.problems.front()}});
  Advice advice{.base = unchanged.outcome, .sections = diagnose(unchanged.outcome)};

  for (Advice::Section& section : advice.sections) {
    for (const Remedy& remedy : remedies(section.symptom))
      section.trials.push_back(trial_of(remedy, scenario));
  }
  if (auto section = fragmented(scenario, advice.base))
    advice.sections.insert(advice.sections.begin(), std::move(*section));
  std::vector<Trial*> trials;
  for (Advice::Section& section : advice.sections) {
    for (Trial& trial : section.trials) trials.push_back(&trial);
  }
  player.play(trials);

  std::vector<Trial> single;
  std::set<std::string_view> seen;
  for (const Trial* trial : trials) {
    if (trial->remedies[0] == remedies(Symptom::fragmented)[0].name) continue;  // costs nothing
    if (trial->idle.empty() && trial->outcome.legal() && seen.insert(trial->remedies[0]).second)
      single.push_back(*trial);
  }
  std::vector<Trial> combined = combine(single);
  std::vector<Trial*> pointers;
  for (Trial& trial : combined) pointers.push_back(&trial);
  player.play(pointers);
  combined.insert(combined.end(), single.begin(), single.end());
  combined.push_back(unchanged);
  std::erase_if(combined, [](const Trial& trial) { return !is_good(trial); });
  sort_by_cost(combined);
  constexpr std::size_t kShown = 5;
  if (combined.size() > kShown) combined.resize(kShown);
  advice.combinations = std::move(combined);
  return advice;
}

std::string to_text(const Advice& advice) {
  const Outcome& base = advice.base;
  std::string text = fmt::format("As it is: peak {} on rank {} of {}, step {}, MFU {:.1f} %: {}\n",
                                 gib(base.peak_allocated_bytes), base.worst_rank,
                                 gib(base.capacity_bytes), to_text(Seconds(base.step_time_s)),
                                 100 * base.mfu, base.fits() ? "fits" : "does not fit");
  for (const Advice::Section& section : advice.sections)
    text += "\n" + section.finding + "\n" + table_of(section.trials, base);
  if (advice.sections.empty()) text += "Nothing stands out.\n";
  if (advice.combinations.empty()) return text + "\nNone of these, nor three of them, fits.\n";
  text += "\nCheapest that fit, in GPU time a token:\n" + table_of(advice.combinations, base);
  const Trial& best = advice.combinations.front();
  if (!best.changes.empty()) text += fmt::format("  {}:\n", names(best)) + settings(best);
  return text;
}

std::string to_json(const Advice& advice) {
  Json root;
  root["base"] = Json::parse(to_json(advice.base));
  root["sections"] = Json::array();
  for (const Advice::Section& section : advice.sections) {
    Json entry;
    entry["symptom"] = kSymptomNames[static_cast<std::size_t>(section.symptom)];
    entry["finding"] = section.finding;
    entry["trials"] = Json::array();
    for (const Trial& trial : section.trials) entry["trials"].push_back(to_object(trial));
    root["sections"].push_back(std::move(entry));
  }
  root["combinations"] = Json::array();
  for (const Trial& trial : advice.combinations) root["combinations"].push_back(to_object(trial));
  return json_text(root, 1);
}

}  // namespace pipeledger
