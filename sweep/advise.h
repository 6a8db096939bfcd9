// What to change when a step does not fit, or is slow: source 000, section 7, tried out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "sweep/sweep.h"

namespace pipeledger {

/// What is wrong with a step, in the order in which the source asks.
enum class Symptom { out_of_memory, resident_too_big, last_stage_high, slow, fragmented };

/// One change that the source advises. `plan` gives the fields it sets, or why it does nothing
/// here.
struct Remedy {
  struct Plan {
    std::vector<Override> changes;
    std::string idle;  // "is on already"; empty: it can be tried
    std::string note;  // "on twice the GPUs"
  };
  std::string_view name;
  Plan (*plan)(const Scenario& scenario);
};
/// In the source's order.
const std::vector<Remedy>& remedies(Symptom symptom);

struct Trial {
  std::vector<std::string_view> remedies;  // one, or a combination
  std::vector<Override> changes;
  std::string note;
  std::string idle;  // why it was not tried
  Outcome outcome;   // if it was
};

struct Advice {
  Outcome base;
  struct Section {
    Symptom symptom;
    std::string finding;  // "the peak of rank 0, 93.1 GiB, is 13.5 GiB over the GPU's memory"
    std::vector<Trial> trials;
  };
  std::vector<Section> sections;  // of the symptoms found
  /// Combinations of up to three remedies that fit, fastest first; a step that fits already comes
  /// first when nothing is faster. Empty: nothing of it fits.
  std::vector<Trial> combinations;
};

/// Plays the scenario, each remedy for what it shows, and their combinations.
/// Throws InputError when the scenario itself cannot be loaded.
Advice advise(const std::function<Scenario(const std::vector<Override>&)>& load, EngineKind engine,
              const Executor& executor, const SweepProgress& progress = {});

std::string to_text(const Advice& advice);
std::string to_json(const Advice& advice);

}  // namespace pipeledger
