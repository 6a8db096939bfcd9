#include "ledger/conventions.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace pipeledger {
namespace {

/// The letters of the legend, as floating point: the sources compute in it.
struct Letters {
  double s, b, h, f, a, g, kv_channels, V, L, t, p, d, v, m;
};

Letters letters(const Scenario& scenario) {
  const Model& model = scenario.model;
  const Parallel& parallel = scenario.parallel;
  const auto real = [](auto n) { return static_cast<double>(n); };
  return {.s = real(scenario.train.seq_length),
          .b = real(scenario.train.micro_batch_size),
          .h = real(model.hidden_size),
          .f = real(model.ffn_hidden_size),
          .a = real(model.num_attention_heads),
          .g = real(model.num_query_groups),
          .kv_channels = real(model.kv_channels),
          .V = real(model.padded_vocab_size),
          .L = real(model.num_layers),
          .t = real(parallel.tensor_model_parallel_size),
          .p = real(parallel.pipeline_model_parallel_size),
          .d = real(parallel.data_parallel_size),
          .v = real(parallel.virtual_pipeline_model_parallel_size),
          .m = real(scenario.train.num_microbatches)};
}

bool selective(const Scenario& scenario) {
  return scenario.train.recompute_granularity == RecomputeGranularity::selective;
}

/// Sequence parallelism is off at t = 1, as in Megatron.
bool sequence_parallel(const Scenario& scenario) {
  return scenario.parallel.sequence_parallel && scenario.parallel.tensor_model_parallel_size > 1;
}

// Optimizer temporaries and the rest, in Megatron's second function.
constexpr double kOverhead = 1.05;

/// Microbatches in flight on the first stage, over p.
double megatron_in_flight(const Letters& x) {
  if (x.v > 1) return 1 + (x.p - 1) / (x.p * x.v);
  return x.p > 1 ? std::min(1.0, x.m / x.p) : 1.0;
}

struct BytesPerParameter {
  double weights, gradients, optimizer;
  double total() const { return weights + gradients + optimizer; }
};

BytesPerParameter megatron_bytes_per_parameter(const Scenario& scenario) {
  const double d = scenario.parallel.data_parallel_size;
  switch (scenario.train.sharding) {
    case Sharding::no_shard:
      return {2, 4, 12};
    case Sharding::optim:
      return {2, 4, 12 / d};
    case Sharding::optim_grads:
      return {2, 4 / d, 12 / d};
    case Sharding::optim_grads_params:
      return {2 / d, 4 / d, 12 / d};
  }
  PIPELEDGER_CHECK(false, "sharding={}", static_cast<int>(scenario.train.sharding));
  return {};
}

Bytes floor_bytes(double bytes) { return Bytes(static_cast<std::int64_t>(std::floor(bytes))); }

/// A layer's attention scores and their dropout, [b, a, s, s]: 2 + 1 + 2 bytes each.
double score_bytes(const Letters& x) { return 5 * x.a * x.s * x.s * x.b; }

ConventionPrices megatron_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double embedding = 8 * x.s * x.b + x.s * x.b * x.h;
  if (megatron_report(scenario).sequence_parallel_path) {
    return {.layer = floor_bytes(x.s * x.b * (18 * x.h + 4 * x.f) / x.t),
            .embedding = floor_bytes(embedding / x.t),
            .head = floor_bytes(4 * x.s * x.b * (x.h + x.V) / x.t)};
  }
  return {.layer = floor_bytes(kOverhead * x.s * x.b * x.h * (10 + 24 / x.t)),
          .embedding = floor_bytes(kOverhead * embedding),
          .head = floor_bytes(kOverhead * 2 * x.s * x.b * (x.V / x.t + x.h))};
}

/// The equation that fits the flags. Flash attention writes no scores, so it is priced as
/// selective recompute is.
double korthikanti_layer_by_flags(const Scenario& scenario) {
  const RecomputeGranularity recompute = scenario.train.recompute_granularity;
  if (recompute == RecomputeGranularity::full) return korthikanti_layer_full_recompute(scenario);
  const bool scores = recompute == RecomputeGranularity::none &&
                      scenario.train.attention_backend == AttentionBackend::unfused;
  const double whole = sequence_parallel(scenario) ? korthikanti_layer_sequence_parallel(scenario)
                                                   : korthikanti_layer_tensor_parallel(scenario);
  const Letters x = letters(scenario);
  return scores ? whole : whole - score_bytes(x) / x.t;
}

/// Section 4.3: the embedding's dropout mask, and 4*s*b*h*(1 + V/h) of final norm, output layer
/// and fp32 logits.
ConventionPrices korthikanti_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double region = sequence_parallel(scenario) ? x.t : 1;
  return {.layer = floor_bytes(korthikanti_layer_by_flags(scenario)),
          .embedding = floor_bytes(x.s * x.b * x.h / region),
          .head = floor_bytes(4 * x.s * x.b * x.h / region + 4 * x.s * x.b * x.V / x.t)};
}

ConventionPrices train_ledger_prices(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return {.layer = floor_bytes(train_ledger_layer(scenario)),
          .embedding = Bytes{},
          .head = floor_bytes(6 * x.s * x.b * x.V)};
}

}  // namespace

MegatronParameters megatron_parameters(const Scenario& scenario) {
  const Model& model = scenario.model;
  const Letters x = letters(scenario);
  const double norm = model.normalization == Normalization::LayerNorm ? 2 : 1;
  const double attention = 2 * x.h * x.kv_channels * x.a * (1 + x.g / x.a);
  const double mlp = 2 * x.h * x.f * (model.swiglu ? 1.5 : 1);
  const double cut = (attention + mlp) * x.L;
  const double replicated = 2 * x.h * norm * x.L + norm * x.h;
  const double embedding = x.h * x.V;
  const bool untied = model.untie_embeddings_and_output_weights;
  MegatronParameters count;
  count.in_transformer_block = cut + replicated;
  count.in_embedding_layers = embedding * (untied ? 2 : 1);
  count.total = count.in_transformer_block + count.in_embedding_layers;
  count.on_other_model_shards = cut / x.p / x.t + replicated / x.p;
  count.on_most_loaded_shard =
      count.on_other_model_shards + embedding / x.t * (untied && x.p == 1 ? 2 : 1);
  return count;
}

double megatron_weight_and_optimizer_bytes(const Scenario& scenario) {
  return megatron_parameters(scenario).on_most_loaded_shard *
         megatron_bytes_per_parameter(scenario).total();
}

double megatron_activation_bytes(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double layers = x.s * x.b * x.h * (18 + 4 * (x.f / x.h)) * x.L;
  const double embedding = 8 * x.s * x.b * x.p + x.s * x.b * x.h * x.p;
  const double head = x.p == 1 ? 4 * x.s * x.b * x.h * (1 + x.V / x.h) : 0;
  return ((layers + embedding) * megatron_in_flight(x) + head) / x.t;
}

double megatron_activation_bytes_without_sp(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double layers = x.s * x.b * x.h * (10 + 24 / x.t) * x.L;
  const double embedding = 8 * x.s * x.b * x.p + x.s * x.b * x.h * x.p;
  const double head = x.p == 1 ? 2 * (x.s * x.b * x.V / x.t + x.s * x.b * x.h) : 0;
  return kOverhead * ((layers + embedding) * megatron_in_flight(x) + head);
}

MegatronReport megatron_report(const Scenario& scenario) {
  const bool sp = scenario.parallel.sequence_parallel && selective(scenario);
  return {.sequence_parallel_path = sp,
          .weight_and_optimizer_bytes = megatron_weight_and_optimizer_bytes(scenario),
          .activation_bytes = sp ? megatron_activation_bytes(scenario)
                                 : megatron_activation_bytes_without_sp(scenario)};
}

StateBytes megatron_state(const Scenario& scenario, Rank rank) {
  const MegatronParameters count = megatron_parameters(scenario);
  const bool end =
      rank.value == 0 || rank.value == scenario.parallel.pipeline_model_parallel_size - 1;
  const double numel = end ? count.on_most_loaded_shard : count.on_other_model_shards;
  const BytesPerParameter each = megatron_bytes_per_parameter(scenario);
  StateBytes state;
  state.weights = floor_bytes(numel * each.weights);
  state.gradients = floor_bytes(numel * each.gradients);
  // The remainder, so that the parts add up to what Megatron prints.
  state.optimizer = floor_bytes(numel * each.total()) - state.weights - state.gradients;
  return state;
}

double korthikanti_layer(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 34 * x.s * x.b * x.h + score_bytes(x);
}

double korthikanti_layer_tensor_parallel(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 10 * x.s * x.b * x.h + (24 * x.s * x.b * x.h + score_bytes(x)) / x.t;
}

double korthikanti_layer_sequence_parallel(const Scenario& scenario) {
  return korthikanti_layer(scenario) / letters(scenario).t;
}

double korthikanti_layer_selective(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 34 * x.s * x.b * x.h / x.t;
}

double korthikanti_layer_full_recompute(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return 2 * x.s * x.b * x.h;
}

double korthikanti_first_stage(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const double interleaved = x.v > 1 ? 1 + (x.p - 1) / (x.p * x.v) : 1;
  return x.L * korthikanti_layer_sequence_parallel(scenario) * interleaved;
}

double train_ledger_layer(const Scenario& scenario) {
  const Letters x = letters(scenario);
  const bool scores = scenario.train.attention_backend == AttentionBackend::unfused;
  return 34 * x.s * x.b * x.h + (scores ? score_bytes(x) : 0);
}

double train_ledger_activation_bytes(const Scenario& scenario) {
  const Letters x = letters(scenario);
  return x.L * train_ledger_layer(scenario) + 6 * x.s * x.b * x.V;
}

ConventionPrices convention_prices(const Scenario& scenario) {
  switch (scenario.sim.convention) {
    case Convention::megatron:
      return megatron_prices(scenario);
    case Convention::korthikanti:
      return korthikanti_prices(scenario);
    case Convention::train_ledger:
      return train_ledger_prices(scenario);
    case Convention::calculator:
    case Convention::exact:
      break;
  }
  PIPELEDGER_CHECK(false, "the exact ledger has no prices by convention");
  return {};
}

std::string_view name(Convention convention) {
  switch (convention) {
    case Convention::exact:
      return "exact";
    case Convention::megatron:
      return "megatron";
    case Convention::korthikanti:
      return "korthikanti";
    case Convention::train_ledger:
      return "train-ledger";
    case Convention::calculator:
      return "calculator";
  }
  PIPELEDGER_CHECK(false, "convention={}", static_cast<int>(convention));
  return {};
}

std::string_view leaves_out(Convention convention) {
  switch (convention) {
    case Convention::exact:
      return "buffer padding, temporaries inside a layer, CUDA context, NCCL, allocator slack";
    case Convention::megatron:
      return "grouped queries, SwiGLU's third matrix, dropout off, full recompute, uneven splits";
    case Convention::korthikanti:
      return "grouped queries, f other than 4h, dropout off, statistics, token ids, workspace";
    case Convention::train_ledger:
      return "every parallel axis, recompute, embedding, f other than 4h, dropout off";
    case Convention::calculator:
      return "Adam's second moment, norms, temporaries, attention scores";
  }
  PIPELEDGER_CHECK(false, "convention={}", static_cast<int>(convention));
  return {};
}

}  // namespace pipeledger
