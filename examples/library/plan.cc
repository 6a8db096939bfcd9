// How many chunks a rank should hold, asked from a program's own code.
#include <pipeledger/pipeledger.h>

#include <iostream>

int main() {
  using namespace pipeledger;
  ScenarioSource source("llama3-70b");
  source.set("model.preset", "llama3-70b")
      .set("cluster.preset", "dgx-h100")
      .set("parallel.tensor_model_parallel_size", 8)
      .set("parallel.pipeline_model_parallel_size", 8)
      .set("parallel.sequence_parallel", true)
      .set("train.seq_length", 8192)
      .set("train.global_batch_size", 32)
      .set("sim.engine", "fast");
  try {
    const Scenario scenario = source.load();
    const Step step = simulate_step(scenario);
    std::cout << draw(step, "table") << fit_text(scenario, step);
    write_outputs(draw_outputs(step), "out");

    const SweepResult sweep = run_sweep(
        source, {.vary = {"parallel.virtual_pipeline_model_parallel_size=1,2,5,10"}});
    const SweepPoint& best = *ranked(sweep).front();
    std::cout << "best: " << best.overrides.front().path << "=" << best.overrides.front().value
              << ", step " << best.outcome.step_time_s << " s\n";
  } catch (const InputError& error) {
    std::cerr << error.what() << '\n';  // every problem, with its field and its remedy
    return 2;
  }
}
