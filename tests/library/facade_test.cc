// The library as a host meets it: by pipeledger/pipeledger.h alone.
#include "pipeledger/pipeledger.h"

#include <gmock/gmock.h>

#include <atomic>
#include <clocale>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <locale>
#include <thread>
#include <vector>

namespace pipeledger {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr const char* kTiny = PIPELEDGER_SOURCE_DIR "/examples/tiny.json";

ScenarioSource tiny() { return ScenarioSource::from_file(kTiny).set("sim.engine", "fast"); }

ScenarioSource llama() {
  return ScenarioSource("llama")
      .set("model.preset", "llama3-70b")
      .set("cluster.preset", "dgx-h100")
      .set("parallel.tensor_model_parallel_size", 8)
      .set("parallel.pipeline_model_parallel_size", 8)
      .set("train.seq_length", 8192)
      .set("train.global_batch_size", 32L)
      .set("train.use_distributed_optimizer", true)
      .set("model.hidden_dropout", 0.0)
      .set("sim.engine", std::string("fast"));
}

std::vector<std::string> problems_of(const ScenarioSource& source) {
  try {
    source.load();
  } catch (const InputError& error) {
    std::vector<std::string> texts;
    for (const Problem& problem : error.problems()) texts.push_back(to_text(problem));
    return texts;
  }
  return {};
}

/// A folder that is gone at the end.
struct Folder {
  fs::path path;

  Folder() {
    std::string name = (fs::temp_directory_path() / "pipeledger_library_XXXXXX").string();
    path = ::mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path); }
};

TEST(ScenarioSource, FieldsInCodeMakeTheScenarioThatAFileMakes) {
  const Scenario in_code = llama().load();
  Scenario written = ScenarioSource::from_text(R"(
model: { preset: llama3-70b, hidden_dropout: 0 }
cluster: { preset: dgx-h100 }
parallel: { tensor_model_parallel_size: 8, pipeline_model_parallel_size: 8 }
train: { seq_length: 8192, global_batch_size: 32, use_distributed_optimizer: true }
sim: { engine: fast })",
                                               "yaml", "llama.yaml")
                         .load();
  written.positions = in_code.positions;
  EXPECT_EQ(in_code, written);
  EXPECT_EQ(in_code.name, "llama");
  // What nobody wrote is filled in.
  EXPECT_EQ(in_code.model.num_layers, 80);
  EXPECT_EQ(in_code.train.num_microbatches, 32);
  EXPECT_EQ(in_code.sim.schedule, "1f1b");
}

TEST(ScenarioSource, WhatIsSetLaterWins) {
  EXPECT_EQ(tiny().set("train.global_batch_size", 4).set("train.global_batch_size", 2).load().train
                .global_batch_size,
            2);
  EXPECT_EQ(tiny().set({{"train.seq_length", "64"}}).load().train.seq_length, 64);
}

TEST(ScenarioSource, EveryProblemIsToldByItsField) {
  EXPECT_THAT(problems_of(llama().set("train.seq_length", 0).set("train.seq_lenght", 1)),
              ElementsAre(StartsWith("train.seq_length: "),
                          AllOf(StartsWith("train.seq_lenght: "), HasSubstr("seq_length"))));
  EXPECT_THAT(problems_of(ScenarioSource("nothing")), Not(IsEmpty()));
  EXPECT_THAT(problems_of(ScenarioSource::from_file("nowhere.yaml")),
              ElementsAre(StartsWith("nowhere.yaml: ")));
  EXPECT_THAT(problems_of(ScenarioSource::from_text("{}", "toml")), ElementsAre(HasSubstr("toml")));
}

TEST(ScenarioSource, ALaunchIsOneToo) {
  const LoadedScenario launch =
      ScenarioSource::from_launch(
          {.flags = {"--num-layers", "4", "--hidden-size", "512", "--num-attention-heads", "8",
                     "--seq-length", "128", "--max-position-embeddings", "128",
                     "--micro-batch-size", "1", "--global-batch-size", "8", "--vocab-size", "1024",
                     "--pipeline-model-parallel-size", "2"}})
          .set("cluster.preset", "dgx-h100")
          .load_with_text();
  EXPECT_EQ(launch.scenario.model.num_layers, 4);
  EXPECT_THAT(launch.yaml, HasSubstr("num_layers: 4"));
  EXPECT_THAT(launch.notes, Not(IsEmpty()));
}

TEST(SimulateStep, IsTheSameAsOftenAsWanted) {
  const Scenario scenario = tiny().load();
  const Step first = simulate_step(scenario);
  EXPECT_GT(first.metrics.step_ns, 0);
  EXPECT_TRUE(first.trace.ranks.front().allocator.has_value());
  EXPECT_EQ(simulate_step(scenario).trace, first.trace);
  EXPECT_FALSE(simulate_step(scenario, {.play_allocators = false})
                   .trace.ranks.front()
                   .allocator.has_value());
}

TEST(SimulateStep, SeveralThreadsAtOnceGiveWhatOneGives) {
  const std::vector<Scenario> scenarios = {tiny().load(), llama().load(),
                                           llama().set("sim.schedule", "zb-h1")
                                               .set("sim.runtime", "torch").load()};
  std::vector<StepTrace> alone;
  for (const Scenario& scenario : scenarios) alone.push_back(simulate_step(scenario).trace);
  std::vector<StepTrace> together(4 * scenarios.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < together.size(); ++i)
      threads.emplace_back([&, i] {
        together[i] = simulate_step(scenarios[i % scenarios.size()]).trace;
      });
  }
  for (std::size_t i = 0; i < together.size(); ++i)
    EXPECT_EQ(together[i], alone[i % scenarios.size()]) << i;
}

TEST(SimulateStep, TellsItsProgressAndCanBeStopped) {
  const Scenario scenario = llama().set("train.global_batch_size", 2048).load();
  for (const EngineKind engine : {EngineKind::simgrid, EngineKind::fast}) {
    SCOPED_TRACE(static_cast<int>(engine));
    Scenario played = scenario;
    played.sim.engine = engine;
    std::stop_source stop;
    std::vector<double> shares;
    const auto progress = [&](double share) {
      shares.push_back(share);
      if (share > 0.3) stop.request_stop();
    };
    EXPECT_THROW(simulate_step(played, {.progress = progress, .stop = stop.get_token()}),
                 Cancelled);
    ASSERT_GE(shares.size(), 2u);
    EXPECT_TRUE(std::is_sorted(shares.begin(), shares.end()));
    EXPECT_GE(shares.front(), 0);
    EXPECT_GT(shares.back(), 0.3);
    EXPECT_LT(shares.back(), 0.6) << "it went on after the stop";
  }
}

TEST(SimulateStep, AStopBeforeItBeginsIsHeardToo) {
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(simulate_step(tiny().load(), {.stop = stop.get_token()}), Cancelled);
}

TEST(SimulateStep, SaysThatSimGridIsThereButOnce) {
  const Scenario scenario = tiny().set("sim.engine", "simgrid").load();
  const Step step = simulate_step(scenario);
  EXPECT_EQ(step.metrics.step_ns, simulate_step(tiny().load()).metrics.step_ns);
  EXPECT_THAT([&] { simulate_step(scenario); },
              ::testing::ThrowsMessage<RunError>(HasSubstr("sim.engine")));
}

TEST(SimulateStep, LeavesTheHostsSignalsAlone) {
  const std::vector<int> signals = {SIGINT, SIGTERM, SIGSEGV, SIGABRT, SIGPIPE, SIGCHLD};
  const auto mine = [](int) {};
  for (const int signal : signals) std::signal(signal, mine);
  for (const char* engine : {"fast", "simgrid"}) simulate_step(tiny().set("sim.engine", engine).load());
  for (const int signal : signals)
    EXPECT_EQ(std::signal(signal, SIG_DFL), static_cast<void (*)(int)>(mine)) << signal;
}

TEST(SimulateStep, WhatDoesNotFitTogetherHasItsPlace) {
  try {
    simulate_step(tiny().set("sim.schedule", "interleavd").load());
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("sim.schedule"));
  }
}

TEST(Draw, EveryFormatToAString) {
  const Step step = simulate_step(tiny().load());
  EXPECT_THAT(draw(step, "table"), StartsWith("tiny\n"));
  EXPECT_THAT(draw(step, "svg"), HasSubstr("<svg"));
  EXPECT_THAT(draw(step, "csv"), StartsWith("time_s,"));
  EXPECT_THAT(draw(step, "summary"), StartsWith("{"));
  EXPECT_THAT(draw(step, "chrome"), HasSubstr("traceEvents"));
  for (const Drawing& drawing : drawings()) EXPECT_NE(draw(step, drawing.name), "");
  EXPECT_THAT([&] { draw(step, "svgg"); },
              ::testing::ThrowsMessage<InputError>(HasSubstr("did you mean svg?")));
}

TEST(Draw, WhatIsWrittenIsReadAgain) {
  const Folder folder;
  const Step step = simulate_step(tiny().load());
  std::vector<std::string> told;
  const std::vector<OutputFile> files =
      draw_outputs(step, [&](const std::string& name) { told.push_back(name); });
  EXPECT_THAT(told, ElementsAre("summary.json", "memory.csv", "step.pb", "step.svg",
                                "trace.json.gz"));
  write_outputs(files, folder.path / "a" / "b");
  for (const std::string& name : told) EXPECT_TRUE(fs::exists(folder.path / "a" / "b" / name));
  const Step again = read_step(folder.path / "a" / "b" / "step.pb");
  EXPECT_EQ(again.trace, step.trace);
  EXPECT_EQ(again.metrics, step.metrics);
  EXPECT_THROW(read_step(kTiny), InputError);
  EXPECT_THROW(write_outputs(files, fs::path(kTiny) / "x"), RunError);
}

TEST(MakeLedger, IsTheScenariosOwnOrAsked) {
  const Scenario scenario = llama().load();
  const LedgerReport own = make_ledger(scenario);
  ASSERT_EQ(own.conventions.size(), 1u);
  EXPECT_EQ(own.conventions.front().ranks.size(), 8u);
  EXPECT_TRUE(own.card.has_value());
  EXPECT_FALSE(own.side_by_side.has_value());
  EXPECT_THAT(to_text(own), HasSubstr("rank"));
  EXPECT_FALSE(make_ledger(scenario, {Convention::megatron}).card.has_value());
  EXPECT_TRUE(make_ledger(scenario, all_conventions()).side_by_side.has_value());
}

TEST(RunSweep, IsTheSameForEveryNumberOfThreads) {
  SweepOptions options{.vary = {"train.micro_batch_size=1,2,3,4",
                                "parallel.virtual_pipeline_model_parallel_size=1,2,5"},
                       .where = {"train.micro_batch_size < 4"},
                       .num_threads = 1};
  const SweepResult one = run_sweep(llama(), options);
  ASSERT_EQ(one.points.size(), 12u);
  std::size_t last = 0;
  options.progress = [&](std::size_t done, std::size_t total) {
    EXPECT_EQ(total, 12u);
    EXPECT_EQ(done, ++last);
  };
  options.num_threads = 5;
  const SweepResult five = run_sweep(llama(), options);
  EXPECT_EQ(last, 12u);
  EXPECT_EQ(to_json(five), to_json(one));
  EXPECT_EQ(five.points.front().outcome.step_time_s,
            static_cast<double>(simulate_step(llama().load()).metrics.step_ns) / 1e9);
  // 3 does not divide the batch, 4 is left out, 5 chunks of 8 stages do not divide 80 layers' 8 x 5.
  EXPECT_LT(ranked(one).size(), 12u);
  EXPECT_THAT(ranked(one), Not(IsEmpty()));
}

TEST(RunSweep, CanBeStopped) {
  std::stop_source stop;
  std::size_t seen = 0;
  const SweepOptions options{.vary = {"train.global_batch_size=32..3200+32"},
                             .num_threads = 2,
                             .progress =
                                 [&](std::size_t done, std::size_t) {
                                   seen = done;
                                   if (done == 2) stop.request_stop();
                                 },
                             .stop = stop.get_token()};
  EXPECT_THROW(run_sweep(llama(), options), Cancelled);
  EXPECT_LT(seen, 50u);
}

TEST(RunSweep, AWrongVariationIsAnInputError) {
  EXPECT_THROW(run_sweep(llama(), {.vary = {"train.seq_length"}}), InputError);
  EXPECT_THROW(run_sweep(llama(), {.where = {"nonsense"}}), InputError);
}

/// Everything that the library can be asked for, as text.
std::string all_of_it() {
  const Scenario scenario = llama().load();
  const Step step = simulate_step(scenario);
  std::string text = fit_text(scenario, step);
  for (const OutputFile& file : draw_outputs(step)) text += file.bytes;
  for (const Drawing& drawing : drawings()) text += draw(step, drawing.name);
  text += to_text(make_ledger(scenario)) + to_json(make_ledger(scenario, all_conventions()));
  const SweepResult sweep =
      run_sweep(tiny(), {.vary = {"train.micro_batch_size=1,2", "train.seq_length=64,x"}});
  text += to_text(sweep, 9) + to_csv(sweep) + to_json(sweep) + to_html(sweep, "sweep");
  text += llama().set("sim.hop_latency_us", 0.5).set("sim.runtime", "ideal").load_with_text().yaml;
  for (const std::string& problem : problems_of(llama().set("train.seq_length", -1.5)))
    text += problem;
  return text;
}

TEST(Library, WritesNothingToStdoutAndStderr) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  all_of_it();
  simulate_step(tiny().set("sim.engine", "simgrid").load());
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

/// As people write numbers in much of the world: 1.234,5.
class Commas : public std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

TEST(Library, TheHostsLocaleChangesNothing) {
  const std::string before = all_of_it();
  const std::locale old = std::locale::global(std::locale(std::locale::classic(), new Commas));
  const std::string after = all_of_it();
  // C's too, where the machine has such a one.
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8"}) {
    if (std::setlocale(LC_ALL, name) == nullptr) continue;
    EXPECT_TRUE(all_of_it() == before) << name;
    break;
  }
  std::locale::global(old);
  std::setlocale(LC_ALL, "C");
  EXPECT_TRUE(after == before);
}

TEST(Library, SaysWhichItIs) { EXPECT_THAT(std::string(version()), StartsWith("0.")); }

}  // namespace
}  // namespace pipeledger
