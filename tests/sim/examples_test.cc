// Worked numbers of the sources, and conservation, out of the event loop: the examples simulated.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>

#include "launch/load.h"
#include "ledger/ledger.h"
#include "sim/simulate.h"
#include "spec/scenario.h"
#include "trace/metrics.h"

namespace pipeledger {
namespace {

Scenario example(const std::string& name, const std::vector<Override>& overrides = {}) {
  return load_file(PIPELEDGER_SOURCE_DIR "/examples/" + name, overrides).scenario;
}

std::int64_t peak(const RankMetrics& rank, Category category) {
  return rank.peak_by_category[static_cast<std::size_t>(category)];
}

std::int64_t resident(const RankTrace& rank) {
  std::int64_t sum = 0;
  for (const std::int64_t bytes : rank.resident_bytes) sum += bytes;
  return sum;
}

// Source 000, section 6: 29.6 GB on the first stage, 23.2 GB on the last, bubble 1/9.
TEST(Source000, SevenBillionOnTwoStagesComesOutOfTheEventLoop) {
  const StepTrace trace = simulate(example("source-000-7b.yaml"));
  const StepMetrics metrics = compute_metrics(trace);
  const RankMetrics &first = metrics.ranks[0], &last = metrics.ranks[1];

  EXPECT_EQ(first.resident_bytes, 12'422'222'208);
  EXPECT_EQ(peak(first, Category::activations), 17'213'489'152);
  EXPECT_EQ(peak(last, Category::activations), 8'589'934'592);
  EXPECT_EQ(peak(last, Category::logits), 2'168'455'168);
  EXPECT_EQ(first.peak_allocated_bytes, 12'422'222'208 + 17'213'489'152);
  EXPECT_NEAR(first.peak_allocated_bytes * 1e-9, 29.6, 0.05);
  EXPECT_NEAR(last.peak_allocated_bytes * 1e-9, 23.2, 0.05);
  EXPECT_EQ(metrics.bubble_fraction, 1.0 / 9);
}

// Megatron's estimate spreads the final norm over both stages; the ledger knows where it is.
TEST(Source000, TheExactLedgerPutsTheFinalNormOnTheLastStage) {
  const Scenario scenario = example("source-000-7b.yaml", {{"sim.convention", "exact"}});
  const StepTrace trace = simulate(scenario);
  const auto state = [](const RankTrace& rank) {  // without the framework's own buffers
    return resident(rank) - rank.resident_bytes[static_cast<std::size_t>(Category::workspace)];
  };
  EXPECT_EQ(state(trace.ranks[0]), 12'422'209'536);
  EXPECT_EQ(state(trace.ranks[1]), 12'422'234'880);
}

// Source 004, chapter 2: activations are at their most as the forward ends, gradients as the
// backward ends, so the true peak is below the sum of both.
TEST(Source004, TheFourStatesPeakAtDifferentInstants) {
  const StepTrace trace = simulate(example("source-004-70b.yaml"));
  const RankMetrics rank = compute_metrics(trace).ranks[0];
  constexpr std::int64_t kParameters = 70'553'706'496;
  constexpr std::int64_t kActivations = 80 * std::int64_t{34} * 8192 * 8192;
  constexpr std::int64_t kLogits = std::int64_t{6} * 8192 * 128256;

  EXPECT_EQ(rank.resident_bytes, 14 * kParameters);
  EXPECT_EQ(peak(rank, Category::activations) + peak(rank, Category::logits),
            kActivations + kLogits);
  EXPECT_EQ(peak(rank, Category::gradients), 2 * kParameters);
  EXPECT_EQ(rank.peak_allocated_bytes, 14 * kParameters + kActivations + kLogits);
  EXPECT_EQ(rank.naive_sum_bytes, 16 * kParameters + kActivations + kLogits);

  ASSERT_EQ(trace.ranks[0].spans[0].kind, SpanKind::forward);
  EXPECT_EQ(rank.peak_time_ns, trace.ranks[0].spans[0].end_ns);
  std::int64_t gradients = 0, all_gradients_at = 0;
  for (const MemoryEvent& event : trace.ranks[0].memory) {
    if (event.category != Category::gradients) continue;
    gradients += event.delta_bytes;
    if (gradients == 2 * kParameters) all_gradients_at = event.time_ns;
  }
  EXPECT_EQ(all_gradients_at, trace.ranks[0].spans[1].end_ns);
}

// One pipeline rank: its gradients are reduced while its last backward goes on.
TEST(Overlap, BucketsHideBehindTheLastBackward) {
  const auto exposed_ms = [](const std::vector<Override>& overrides) {
    std::vector<Override> all = {{"parallel.pipeline_model_parallel_size", "1"},
                                 {"parallel.data_parallel_size", "8"},
                                 {"train.micro_batch_size", "2"},
                                 {"train.global_batch_size", "16"},
                                 {"cluster.nodes", "8"}};
    all.insert(all.end(), overrides.begin(), overrides.end());
    const pid_t child = ::fork();  // an engine a process
    if (child == 0) {
      const StepTrace trace = simulate(example("llama3-70b-tp8-pp8.yaml", all));
      std::int64_t exposed = 0;
      for (const Span& span : trace.ranks[0].spans) {
        if (span.kind == SpanKind::exposed_grad_sync) exposed += span.end_ns - span.begin_ns;
      }
      ::_exit(static_cast<int>(std::min<std::int64_t>(255, exposed / 10'000'000)));
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status));
    return 10 * WEXITSTATUS(status);
  };
  // 35 GB of fp32 gradients over a 50 GB/s NIC: (7/8) * 35.3 / 50 = 0.62 s, of which one bucket of
  // 40e6 parameters stays.
  EXPECT_NEAR(exposed_ms({}), 620, 20);
  EXPECT_LE(exposed_ms({{"train.overlap_grad_reduce", "true"}}), 20);
}

/// What holds of every step, whatever the scenario.
void expect_conservation(const StepTrace& trace) {
  const StepMetrics metrics = compute_metrics(trace);
  std::map<int, std::int64_t> sent, received;
  for (const Transfer& transfer : trace.transfers) {
    if (transfer.from == transfer.to) continue;
    sent[transfer.from.value] += transfer.bytes;
    received[transfer.to.value] += transfer.bytes;
  }
  for (std::size_t r = 0; r < trace.ranks.size(); ++r) {
    SCOPED_TRACE(testing::Message() << "rank " << r);
    std::array<std::int64_t, kNumCategories> level = trace.ranks[r].resident_bytes;
    for (const MemoryEvent& event : trace.ranks[r].memory) {
      std::int64_t& bytes = level[static_cast<std::size_t>(event.category)];
      bytes += event.delta_bytes;
      ASSERT_GE(bytes, 0) << name(event.category) << " at " << event.time_ns << " ns";
    }
    EXPECT_EQ(level, trace.ranks[r].resident_bytes);
    const RankMetrics& rank = metrics.ranks[r];
    EXPECT_EQ(rank.busy_ns + rank.bubble_ns + rank.exposed_comm_ns, trace.step_ns);
    // A pipeline sends down what it sends up: each rank sends as much as it receives.
    EXPECT_EQ(sent[static_cast<int>(r)], received[static_cast<int>(r)]);
    int num_ops = 0;
    for (const Span& span : trace.ranks[r].spans) num_ops += span.stage.value >= 0;
    EXPECT_EQ(num_ops, 2 * trace.num_chunks * trace.num_microbatches);
  }
}

struct Case {
  std::string name;  // of the test
  std::string file;
  std::vector<Override> overrides = {};
};

class Conservation : public testing::TestWithParam<Case> {};

TEST_P(Conservation, MemoryComesBackTimeAddsUpAndBytesSentAreReceived) {
  expect_conservation(simulate(example(GetParam().file, GetParam().overrides)));
}

const std::vector<Override> kFullRecompute = {{"train.recompute_granularity", "full"},
                                              {"train.recompute_method", "uniform"},
                                              {"train.recompute_num_layers", "2"}};
const std::vector<Override> kOverlapped = {{"parallel.data_parallel_size", "4"},
                                           {"cluster.nodes", "32"},
                                           {"train.global_batch_size", "128"},
                                           {"train.overlap_grad_reduce", "true"},
                                           {"train.overlap_param_gather", "true"}};
const std::vector<Override> kReplicas = {{"parallel.data_parallel_size", "4"},
                                         {"cluster.nodes", "32"},
                                         {"train.global_batch_size", "128"}};
const std::vector<Override> kZero3 = {
    {"parallel.data_parallel_size", "4"},
    {"cluster.nodes", "32"},
    {"train.global_batch_size", "128"},
    {"train.data_parallel_sharding_strategy", "optim_grads_params"}};
const std::vector<Override> kGpipe = {{"sim.schedule", "gpipe"}};
const std::vector<Override> kNoDeallocation = {{"sim.deallocate_pipeline_outputs", "false"}};
const std::vector<Override> kBlocking = {{"sim.overlap_p2p_communication", "false"}};
const std::vector<Override> kFlush = {{"sim.overlap_p2p_communication_warmup_flush", "true"}};
const std::vector<Override> kIdeal = {{"sim.runtime", "ideal"}};

const std::string kPlain = "llama3-70b-tp8-pp8.yaml", kVpp = "llama3-70b-vpp.yaml";

INSTANTIATE_TEST_SUITE_P(
    Examples, Conservation,
    testing::Values(Case{"OneFOneB", kPlain}, Case{"FullRecompute", kPlain, kFullRecompute},
                    Case{"Replicas", kPlain, kReplicas}, Case{"Overlapped", kPlain, kOverlapped},
                    Case{"Zero3", kPlain, kZero3}, Case{"Gpipe", kPlain, kGpipe},
                    Case{"NoDeallocation", kPlain, kNoDeallocation}, Case{"Ideal", kPlain, kIdeal},
                    Case{"Interleaved", kVpp}, Case{"InterleavedOverlapped", kVpp, kOverlapped},
                    Case{"InterleavedNoDeallocation", kVpp, kNoDeallocation},
                    Case{"InterleavedBlocking", kVpp, kBlocking},
                    Case{"InterleavedFlush", kVpp, kFlush}, Case{"InterleavedIdeal", kVpp, kIdeal},
                    Case{"Gpt3", "gpt3-175b.yaml"}, Case{"HuggingFace", "llama3-8b-hf.yaml"},
                    Case{"HandmadeCluster", "handmade-cluster.yaml"},
                    Case{"Hybrid", "nemotron-h-8b.yaml"},
                    Case{"Source000", "source-000-7b.yaml"},
                    Case{"Source004", "source-004-70b.yaml"}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace pipeledger
