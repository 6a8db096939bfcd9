#include "ledger/conventions/calculator.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "ledger/conventions/letters.h"

namespace pipeledger {
namespace {

double real(std::int64_t n) { return static_cast<double>(n); }

/// intDiv(intDiv(x, TP), CP).
std::int64_t cut(double bytes, const CalculatorInput& input) {
  return static_cast<std::int64_t>(std::floor(std::floor(bytes / input.tp) / input.cp));
}

/// A module's five bytes; `is_linear`: FP8 where the model is, with a transposed copy.
CalculatorModule module_of(const CalculatorInput& input, std::string_view name, double num_elements,
                           bool is_linear, std::int64_t shard) {
  const std::int64_t element = is_linear ? input.linear_bytes : input.other_bytes;
  const std::int64_t stored = input.weight_2b_for_1b && element < 2 ? 2 : element;
  CalculatorModule made{.name = name, .num_elements = num_elements};
  made.weight = num_elements * real(stored);
  made.fp8_cache = is_linear && input.fp8 ? made.weight : 0;
  made.grad = num_elements * 4;
  made.sharded_param = num_elements * 4 / real(shard);
  made.optimizer_state = num_elements * 4 / real(shard);
  return made;
}

/// Sections 9.1 and 9.2: whole on every GPU, bf16, optimizer over all of them.
void add_vision(const CalculatorInput& input, std::vector<CalculatorModule>& modules) {
  if (!input.vision) return;
  const Vision& vision = *input.vision;
  const double n = vision.num_layers;
  const double h = real(vision.hidden_size);
  const double heads = real(vision.num_attention_heads);
  const double groups = real(vision.num_query_groups);
  const double projector = real(vision.projector_ffn_hidden_size);
  const double out = real(input.hidden);
  const double merged = real(vision.spatial_merge_size) * real(vision.spatial_merge_size);
  const auto add = [&](std::string_view name, double num_elements) {
    modules.push_back(module_of(input, name, num_elements, false, input.num_gpus()));
  };
  add("vit_conv", real(vision.patch_dim) * real(vision.patch_dim) * 3 * h);
  add("vit_qkv", n * real(vision.kv_channels) * (heads + 2 * groups) * h);
  add("vit_out", n * real(vision.kv_channels) * heads * h);
  add("vit_fc1", n * (vision.swiglu ? 2 : 1) * real(vision.ffn_hidden_size) * h);
  add("vit_fc2", n * real(vision.ffn_hidden_size) * h);
  add("projector_fc1", h * projector);
  add("projector_fc2", projector * out);
  add("merge_fc1", projector * out * merged);
  add("merge_fc2", projector * out);
}

/// Section 4: elements of one layer, times the layers of the rank.
std::vector<CalculatorModule> modules_of(const CalculatorInput& input, const CalculatorRank& rank) {
  const double h = real(input.hidden);
  const double t = input.tp;
  const double d = real(input.kv_channels);
  const double layers = rank.num_dense + rank.num_moe;
  const double moe = rank.num_moe;
  const double local_experts = real(input.num_experts) / input.ep;
  const double dense_ffn = real(input.ffn * input.topk);
  const double queries = real(input.heads) * (input.output_gate ? 2 : 1);
  const double table = real(input.vocab) * h / t;
  std::vector<CalculatorModule> modules;
  const auto add = [&](std::string_view name, double numel, bool is_linear, std::int64_t shard) {
    modules.push_back(module_of(input, name, numel, is_linear, shard));
  };
  const double shared = real(input.shared_ffn);
  const double ffn = real(input.ffn);
  add("embedding", rank.num_embeddings * table, false, input.dp());
  add("attention_qkv", layers * d * (queries + 2 * real(input.groups)) * h / t, true, input.dp());
  add("attention_out", layers * d * real(input.heads) * h / t, true, input.dp());
  add("gate", moe * h * real(input.num_experts), false, input.sedp());
  add("moe_fc1_shared", moe * shared * h * 2 / t, true, input.dp());
  add("moe_fc1_experts", moe * local_experts * h * ffn * 2, true, input.edp());
  add("moe_fc2_shared", moe * shared * h / t, true, input.dp());
  add("moe_fc2_experts", moe * local_experts * h * ffn, true, input.edp());
  add("dense_fc1", rank.num_dense * dense_ffn * h * 2, true, input.sedp());
  add("dense_fc2", rank.num_dense * dense_ffn * h, true, input.sedp());
  add("output_layer", rank.num_output_layers * table, false, input.dp());
  add_vision(input, modules);
  return modules;
}

/// Parts of a layer under construction: `tokens * width * bytes`, cut by TP and CP.
struct Parts {
  const CalculatorInput& input;
  CalculatorLayer layer;

  void add(std::string_view name, double width, std::int64_t bytes, bool is_recomputed = false) {
    const double whole = real(input.mbs * input.seq) * width * real(bytes);
    layer.parts.push_back({name, cut(whole, input)});
    if (!is_recomputed) layer.bytes += layer.parts.back().bytes;
  }
};

constexpr std::int64_t kHalf = 2;  // bytes of a bf16 element
constexpr std::int64_t kMask = 1;  // SwiGLU's clamp keeps a byte an element

/// Section 6.3 (a) to (e): everything up to the second norm.
void add_attention(Parts& out) {
  const CalculatorInput& input = out.input;
  const double h = real(input.hidden);
  const double queries = real(input.kv_channels * input.heads);
  const double keys = real(input.kv_channels * input.groups);
  out.add("pre_attn_layernorm", h, kHalf);
  out.add("linear_qkv", h, input.linear_bytes);
  out.add("attention_q", queries, kHalf);
  out.add("attention_k", keys, kHalf);
  out.add("attention_v", keys, kHalf);
  out.add("attention_o", queries, kHalf);
  out.add("pre_mlp_layernorm", h, kHalf);
}

}  // namespace

CalculatorInput calculator_input(const Scenario& scenario) {
  const Model& model = scenario.model;
  const Parallel& parallel = scenario.parallel;
  const Train& train = scenario.train;
  CalculatorInput input{.nodes = 1,
                        .gpus_per_node = static_cast<int>(parallel.world_size()),
                        .tp = parallel.tensor_model_parallel_size,
                        .pp = parallel.pipeline_model_parallel_size,
                        .cp = parallel.context_parallel_size,
                        .ep = parallel.expert_model_parallel_size,
                        .hidden = model.hidden_size,
                        .ffn = model.ffn_hidden_size,
                        .heads = model.num_attention_heads,
                        .groups = model.num_query_groups,
                        .kv_channels = model.kv_channels,
                        .output_gate = model.attention_output_gate,
                        .vocab = model.padded_vocab_size,
                        .seq = train.seq_length,
                        .mbs = train.micro_batch_size,
                        .linear_bytes = train.fp8 ? 1 : scenario.activation_element_bytes(),
                        .other_bytes = scenario.activation_element_bytes(),
                        .fp8 = train.fp8.has_value(),
                        .weight_2b_for_1b = !train.fp8 || !train.fp8->param_gather,
                        .num_dense_layers = model.num_layers,
                        .moe_act_recompute = train.recomputes(RecomputeModule::moe_act),
                        .stages = stage_layouts(scenario),
                        .vision = model.vision};
  if (!model.moe) return input;
  const MixtureOfExperts& moe = *model.moe;
  input.ffn = moe.ffn_hidden_size;
  input.topk = moe.router_topk;
  input.num_experts = moe.num_experts;
  input.shared_ffn = moe.shared_expert_intermediate_size;
  input.num_dense_layers = std::count(moe.layers.begin(), moe.layers.end(), false);
  if (const auto& capacity = train.moe_expert_capacity_factor) {
    input.droprate = train.moe_pad_expert_input_to_capacity ? *capacity : std::min(1.0, *capacity);
  }
  return input;
}

CalculatorLayer calculator_moe_layer(const CalculatorInput& input) {
  Parts out{input, {}};
  add_attention(out);
  const double shared = real(input.shared_ffn);
  const double routed = real(input.topk) * input.droprate;
  const double ffn = routed * real(input.ffn);
  out.add("gate_act", real(input.hidden), kHalf);
  out.add("shared_clamp", shared * 2, kMask);
  out.add("shared_activation", shared * 2, kHalf);
  out.add("shared_fc2", shared, input.linear_bytes);
  out.add("moe_fc1", routed * real(input.hidden), input.linear_bytes);
  out.add("moe_clamp", ffn * 2, kMask, input.moe_act_recompute);
  out.add("moe_activation", ffn * 2, kHalf, input.moe_act_recompute);
  out.add("moe_fc2", ffn, input.linear_bytes, input.moe_act_recompute);
  return std::move(out.layer);
}

CalculatorLayer calculator_dense_layer(const CalculatorInput& input) {
  Parts out{input, {}};
  add_attention(out);
  const double ffn = real(input.ffn * input.topk);
  out.add("dense_fc1", real(input.hidden), input.linear_bytes);
  out.add("dense_clamp", ffn * 2, kMask);
  out.add("dense_activation", ffn * 2, kHalf);
  out.add("dense_fc2", ffn, input.linear_bytes);
  return std::move(out.layer);
}

std::int64_t calculator_output_layer(const CalculatorInput& input) {
  // Three tensors of the loss.
  return cut(real(input.mbs * input.seq) * real(input.vocab) * kHalf * 3, input);
}

double CalculatorRank::static_bytes() const {
  return std::accumulate(modules.begin(), modules.end(), 0.0,
                         [](double sum, const auto& each) { return sum + each.total(); });
}

CalculatorRank calculator_rank(const CalculatorInput& input, Rank rank) {
  CalculatorRank made;
  for (std::size_t s = rank.index(); s < input.stages.size();
       s += static_cast<std::size_t>(input.pp)) {
    const StageLayout& stage = input.stages[s];
    const std::int64_t dense =
        std::clamp<std::int64_t>(input.num_dense_layers - stage.first_layer, 0, stage.num_layers);
    made.num_embeddings += stage.embedding ? 1 : 0;
    made.num_dense += static_cast<int>(dense);
    made.num_moe += stage.num_layers - static_cast<int>(dense);
    made.num_mtp += stage.num_mtp_layers;
    made.num_output_layers += stage.head ? 1 : 0;
  }
  made.modules = modules_of(input, made);
  made.activations_once = made.num_moe * calculator_moe_layer(input).bytes +
                          made.num_dense * calculator_dense_layer(input).bytes;
  made.activations = made.activations_once * input.vpp();
  made.output_layer = made.num_output_layers * calculator_output_layer(input);
  return made;
}

StateBytes calculator_state(const Scenario& scenario, Rank rank) {
  double weights = 0, gradients = 0, optimizer = 0, caches = 0;
  for (const CalculatorModule& each : calculator_rank(calculator_input(scenario), rank).modules) {
    weights += each.weight;
    caches += each.fp8_cache;
    gradients += each.grad;
    optimizer += each.sharded_param + each.optimizer_state;
  }
  return {.weights = floor_bytes(weights),
          .gradients = floor_bytes(gradients),
          .optimizer = floor_bytes(optimizer),
          .fp8_weights = floor_bytes(caches)};
}

ConventionPrices calculator_prices(const Scenario& scenario) {
  const CalculatorInput input = calculator_input(scenario);
  return {.layer = Bytes(calculator_dense_layer(input).bytes),
          .moe_layer = Bytes(calculator_moe_layer(input).bytes),
          .embedding = Bytes{},
          .head = Bytes(calculator_output_layer(input))};
}

}  // namespace pipeledger
