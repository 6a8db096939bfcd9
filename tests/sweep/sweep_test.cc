#include "sweep/sweep.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <random>

#include "base/file.h"
#include "spec/load.h"

namespace pipeledger {
namespace {

constexpr const char* kTiny =
    "model: {num_layers: 8, hidden_size: 256, num_attention_heads: 4, vocab_size: 1000,\n"
    "        position_embedding_type: rope}\n"
    "parallel: {pipeline_model_parallel_size: 2}\n"
    "train: {global_batch_size: 8, seq_length: 128}\n"
    "cluster: {preset: dgx-h100}\n";

SweepRequest tiny(std::vector<Variation> variations, SweepMode mode = SweepMode::screen) {
  return {.variations = std::move(variations),
          .mode = mode,
          .load = [](const std::vector<Override>& changes) {
            return parse_scenario(kTiny, "yaml", "tiny.yaml", changes);
          }};
}

Executor processes(int workers) {
  return [workers](const auto& indices, const Work& work, const OnDone& on_done) {
    run_in_processes(indices, work, workers, on_done);
  };
}

const std::vector<Variation> kVaried = {
    {"parallel.virtual_pipeline_model_parallel_size", {"1", "2", "3", "4"}},
    {"train.micro_batch_size", {"1", "2", "4"}}};

TEST(Sweep, SaysWhyAPointIsNotLegal) {
  const SweepResult result = sweep(tiny(kVaried), processes(2), nullptr);
  ASSERT_EQ(result.points.size(), 12u);
  for (std::size_t i = 0; i < 12; ++i) {
    // 8 layers over 2 ranks are not 3 chunks each.
    EXPECT_EQ(result.points[i].outcome.legal(), i / 3 != 2) << i;
  }
  ASSERT_EQ(reasons(result).size(), 1u);
  EXPECT_EQ(reasons(result)[0].num_points, 3u);
  EXPECT_THAT(reasons(result)[0].example, ::testing::HasSubstr("not a multiple of 3 chunks"));
}

TEST(Sweep, NothingOnTheFrontIsBeatenAndAllElseIs) {
  const SweepResult result = sweep(tiny(kVaried, SweepMode::fast), processes(2), nullptr);
  const auto beats = [](const Outcome& a, const Outcome& b) {
    const bool no_worse = cost(a) <= cost(b) && a.peak_allocated_bytes <= b.peak_allocated_bytes;
    return no_worse && (cost(a) < cost(b) || a.peak_allocated_bytes < b.peak_allocated_bytes);
  };
  for (const SweepPoint& point : result.points) {
    if (!point.outcome.legal()) continue;
    bool beaten = false;
    for (const SweepPoint& other : result.points)
      beaten = beaten || (other.outcome.legal() && beats(other.outcome, point.outcome));
    EXPECT_EQ(point.on_front, !beaten);
  }
}

TEST(Sweep, TheSameWhoeverComputesWhat) {
  const std::string once = to_json(sweep(tiny(kVaried), processes(1), nullptr));
  EXPECT_EQ(to_json(sweep(tiny(kVaried), processes(3), nullptr)), once);
}

TEST(Sweep, KilledAndResumedIsTheSame) {
  const std::string whole = to_json(sweep(tiny(kVaried), processes(1), nullptr));
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("pipeledger-sweep-" + std::to_string(::getpid()));
  struct Killed {};
  // Killed after one point, resumed, killed after one more, and so on to the end.
  for (int kills = 0; kills < 100; ++kills) {
    Journal journal(file, "tiny");
    int done = 0;
    const Executor dying = [&](const auto& indices, const Work& work, const OnDone& on_done) {
      run_in_processes(indices, work, 1, [&](const WorkDone& piece) {
        on_done(piece);
        if (++done == 1) throw Killed();
      });
    };
    try {
      EXPECT_EQ(to_json(sweep(tiny(kVaried), dying, &journal)), whole);
      EXPECT_EQ(done, 0);
      EXPECT_GE(kills, 12);
      break;
    } catch (const Killed&) {
    }
  }
  std::filesystem::remove(file);
}

TEST(Sweep, ConstraintsLeavePointsOut) {
  SweepRequest request = tiny(kVaried);
  request.constraints.push_back(parse_constraint("micro_batch_size < 4"));
  const SweepResult result = sweep(request, processes(2), nullptr);
  std::size_t legal = 0;
  for (const SweepPoint& point : result.points) legal += point.outcome.legal() ? 1 : 0;
  EXPECT_EQ(legal, 6u);
}

TEST(Sweep, ReportsSayEveryPoint) {
  const SweepResult result = sweep(tiny(kVaried), processes(2), nullptr);
  const std::string csv = to_csv(result);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 13);
  EXPECT_THAT(to_text(result, 30), ::testing::HasSubstr("12 points: 9 legal, 9 of them fit"));
  const std::string html = to_html(result, "a <b> title");
  EXPECT_THAT(html, ::testing::HasSubstr("<title>a &lt;b> title</title>"));
  EXPECT_THAT(html, ::testing::Not(::testing::HasSubstr("http://e")));
}

TEST(Sweep, TimesOfDifferentBatchesAreNotCompared) {
  EXPECT_TRUE(step_times_compare(sweep(tiny(kVaried), processes(2), nullptr)));
  EXPECT_FALSE(step_times_compare(
      sweep(tiny({{"train.global_batch_size", {"8", "16"}}}), processes(2), nullptr)));
}

}  // namespace
}  // namespace pipeledger
