#include "ledger/conventions/train_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "ledger/conventions/letters.h"

namespace pipeledger {
namespace {

/// 12*L*s*h flops of a token's attention scores, forward and backward, no mask.
double score_flops(const Letters& x) { return 12 * x.L * x.s * x.h; }

// The share of the peak that its command line takes by default.
constexpr double kMfuTarget = 0.4;

/// "   1.14 GB": powers of 1,000.
std::string in_units(double bytes) {
  constexpr std::array kUnits = {"B", "KB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1000 && unit + 1 < kUnits.size(); ++unit) bytes /= 1000;
  return fmt::format("{:7.2f} {}", bytes, kUnits[unit]);
}
std::string in_units(Bytes bytes) { return in_units(static_cast<double>(bytes.value())); }

/// A share of one as the program writes it: "41.3%".
std::string percent(double share, int digits) {
  return fmt::format("{:.{}f}%", share * 100, digits);
}

/// A number as Python prints a float: "4.5", "4.0".
std::string python_float(double number) {
  std::string text = fmt::format("{}", number);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

Scenario with_backend(Scenario scenario, AttentionBackend backend) {
  scenario.train.attention_backend = backend;
  return scenario;
}

std::string step_text(const Scenario& scenario, const TrainLedgerStep& step, double peak) {
  const auto tokens = static_cast<double>(step.tokens);
  const auto gpus = static_cast<double>(step.gpus);
  const double bound = train_ledger_lower_bound_s(scenario, tokens, gpus, peak);
  std::string text =
      fmt::format("  {:.0f} Mi tokens/step on {} GPUs: >= {:.2f} s at 100%, {:.2f} s at {} MFU\n",
                  tokens / (1 << 20), step.gpus, bound, bound / kMfuTarget, percent(kMfuTarget, 0));
  if (!step.observed_s) return text;
  const double mfu = train_ledger_mfu(scenario, step, peak);
  const auto hfu = [&](RecomputeGranularity recompute) {
    return percent(mfu * train_ledger_recompute_factor(scenario, recompute), 1);
  };
  return text + fmt::format(
                    "  observed {} s/step = {:.0f} K tokens/s -> MFU {}  HFU(selective) {}  "
                    "HFU(full) {}\n",
                    python_float(*step.observed_s), tokens / *step.observed_s / 1e3,
                    percent(mfu, 1), hfu(RecomputeGranularity::selective),
                    hfu(RecomputeGranularity::full));
}

}  // namespace

TrainLedgerPrecision train_ledger_precision(const Scenario& scenario) {
  switch (scenario.train.precision) {
    case Precision::fp32:
      return {"fp32", 4, 4, 0};
    case Precision::fp16:
      return {"fp16", 2, 2, 4};
    case Precision::bf16:
      break;
  }
  if (scenario.train.accumulate_allreduce_grads_in_fp32) return {"bf16-fp32grad", 2, 4, 4};
  return {"bf16", 2, 2, 4};
}

TrainLedgerOptimizer train_ledger_optimizer(const Scenario& scenario) {
  switch (scenario.train.optimizer) {
    case Optimizer::adam:
      return {"adam", 2};
    case Optimizer::sgd:
      if (scenario.train.sgd_momentum > 0) return {"sgd-momentum", 1};
      return {"sgd", 0};
    case Optimizer::muon:
      break;
  }
  throw InputError(
      {Problem{"train.optimizer",
               "muon is not in train-ledger's table; take adam or sgd, or another convention"}});
}

TrainLedgerParameters train_ledger_parameters(const Scenario& scenario) {
  const Model& model = scenario.model;
  const std::int64_t h = model.hidden_size;
  const std::int64_t kv = model.num_query_groups * (h / model.num_attention_heads);
  const std::int64_t layer = 2 * h * h + 2 * h * kv + 3 * h * model.ffn_hidden_size + 2 * h;
  const std::int64_t table = model.padded_vocab_size * h;
  const std::int64_t embedding = model.untie_embeddings_and_output_weights ? 2 * table : table;
  return {.total = model.num_layers * layer + embedding + h, .embedding = embedding};
}

StateBytes train_ledger_state(const Scenario& scenario) {
  const std::int64_t numel = train_ledger_parameters(scenario).total;
  const TrainLedgerPrecision precision = train_ledger_precision(scenario);
  const int slots = train_ledger_optimizer(scenario).num_fp32_slots;
  return {.weights = Bytes(numel * precision.param),
          .gradients = Bytes(numel * precision.grad),
          .optimizer = Bytes(numel * (precision.master + 4 * slots))};
}

double train_ledger_layer(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const bool scores = scenario.train.attention_backend == AttentionBackend::unfused;
  return 34 * x.s * x.b * x.h + (scores ? 5 * x.a * x.s * x.s * x.b : 0);
}

double train_ledger_activation_bytes(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return x.L * train_ledger_layer(scenario) + 6 * x.s * x.b * x.V;
}

double train_ledger_flops_per_token(const Scenario& scenario, bool causal) {
  const Letters x = letters(scenario);
  const auto gemms = static_cast<double>(train_ledger_parameters(scenario).non_embedding());
  return 6 * (gemms + x.h * x.V) + score_flops(x) / (causal ? 2 : 1);
}

double train_ledger_flops_per_token_6n(const Scenario& scenario) {
  return 6 * static_cast<double>(train_ledger_parameters(scenario).total);
}

double train_ledger_recompute_factor(const Scenario& scenario, RecomputeGranularity recompute) {
  switch (recompute) {
    case RecomputeGranularity::none:
      return 1;
    case RecomputeGranularity::full:
      return 4.0 / 3.0;
    case RecomputeGranularity::selective:
      return 1 + score_flops(letters(scenario)) / 6 / train_ledger_flops_per_token(scenario);
  }
  PIPELEDGER_CHECK(false, "recompute={}", static_cast<int>(recompute));
  return 1;
}

double train_ledger_lower_bound_s(const Scenario& scenario, double tokens, double gpus,
                                  double peak) {
  return tokens * train_ledger_flops_per_token(scenario) / (gpus * peak);
}

double train_ledger_mfu(const Scenario& scenario, const TrainLedgerStep& step, double peak) {
  const double tokens_per_s = static_cast<double>(step.tokens) / step.observed_s.value();
  return tokens_per_s * train_ledger_flops_per_token(scenario) /
         (static_cast<double>(step.gpus) * peak);
}

TrainLedgerStep train_ledger_step(const Scenario& scenario, std::optional<double> observed_s) {
  return {.tokens = scenario.train.global_batch_size * scenario.train.seq_length,
          .gpus = scenario.parallel.world_size(),
          .observed_s = observed_s};
}

std::string train_ledger_text(const Scenario& scenario,
                              const std::optional<TrainLedgerStep>& step) {
  const Model& model = scenario.model;
  const Train& train = scenario.train;
  const StateBytes state = train_ledger_state(scenario);
  const Scenario flash = with_backend(scenario, AttentionBackend::flash);
  const auto parameters = static_cast<double>(train_ledger_parameters(scenario).total);
  const double peak = scenario.cluster.gpu.peak_16bit.value();
  std::string text =
      fmt::format("== {}: L={} h={} a={} kv={} f={} V={} s={}\n",
                  model.name.empty() ? scenario.name : model.name, model.num_layers,
                  model.hidden_size, model.num_attention_heads, model.num_query_groups,
                  model.ffn_hidden_size, model.padded_vocab_size, train.seq_length);
  text += fmt::format("  N = {:.2f} B   ({} + {}: {:.0f} B/param)\n", parameters / 1e9,
                      train_ledger_precision(scenario).name, train_ledger_optimizer(scenario).name,
                      static_cast<double>(state.total().value()) / parameters);
  text +=
      fmt::format("  params {}  grads {}  optim {}  resident {}\n", in_units(state.weights),
                  in_units(state.gradients), in_units(state.optimizer), in_units(state.total()));
  text += fmt::format(
      "  activation/layer (b={}): {} flash | {} materialised scores | all layers + logits {}\n",
      train.micro_batch_size, in_units(train_ledger_layer(flash)),
      in_units(train_ledger_layer(with_backend(scenario, AttentionBackend::unfused))),
      in_units(train_ledger_activation_bytes(flash)));
  text += fmt::format(
      "  FLOPs/token: 6N = {:.0f} GFLOP, with causal attention = {:.0f} GFLOP;  one {}-token "
      "sequence on one H100 >= {:.2f} s\n",
      train_ledger_flops_per_token_6n(scenario) / 1e9, train_ledger_flops_per_token(scenario) / 1e9,
      train.seq_length,
      train_ledger_lower_bound_s(scenario, static_cast<double>(train.seq_length), 1, peak));
  if (step) text += step_text(scenario, *step, peak);
  return text + "\n";
}

ConventionPrices train_ledger_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const Bytes layer = floor_bytes(train_ledger_layer(scenario));
  return {.layer = layer,
          .moe_layer = layer,
          .embedding = Bytes{},
          .head = floor_bytes(6 * x.s * x.b * x.V)};
}

}  // namespace pipeledger
