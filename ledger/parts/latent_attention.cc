// Multi-latent attention (Megatron's MLASelfAttention): queries, keys and values pass through
// narrow projections, which every tensor-parallel rank holds whole and runs on its part of the
// sequence.
#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kQuery = {"self_attention.linear_q_proj", "linear_q_proj",
                                "linear_q_proj.dgrad", "linear_q_proj.wgrad"};
constexpr LinearNames kQueryDown = {"self_attention.linear_q_down_proj", "linear_q_down_proj",
                                    "linear_q_down_proj.dgrad", "linear_q_down_proj.wgrad"};
constexpr LinearNames kQueryUp = {"self_attention.linear_q_up_proj", "linear_q_up_proj",
                                  "linear_q_up_proj.dgrad", "linear_q_up_proj.wgrad"};
constexpr LinearNames kKeyValueDown = {"self_attention.linear_kv_down_proj", "linear_kv_down_proj",
                                       "linear_kv_down_proj.dgrad", "linear_kv_down_proj.wgrad"};
constexpr LinearNames kKeyValueUp = {"self_attention.linear_kv_up_proj", "linear_kv_up_proj",
                                     "linear_kv_up_proj.dgrad", "linear_kv_up_proj.wgrad"};
constexpr LinearNames kProj = {"self_attention.linear_proj", "linear_proj", "linear_proj.dgrad",
                               "linear_proj.wgrad"};

/// The narrow projections are whole on every rank; those back to heads are cut.
struct Modules {
  Norm input_norm;
  Linear proj;
  Linear query_down, query_up;  // with q_lora_rank 0 query_up starts from the hidden state
  Norm query_norm;
  Linear key_value_down, key_value_up;
  Norm key_value_norm;
  bool is_query_narrow = false;
  bool has_norms = false;
};

Modules modules_of(const Scenario& scenario, const Shape& shape) {
  const Model& model = scenario.model;
  const MultiLatentAttention& mla = *model.mla;
  const std::int64_t a = shape.local_heads;
  const bool is_query_narrow = mla.q_lora_rank > 0;
  const auto down = [&](const LinearNames& names, std::int64_t out) {
    return Linear{.names = names, .rows = shape.region_tokens(), .in = shape.h, .out = out};
  };
  const auto up = [&](const LinearNames& names, std::int64_t in, std::int64_t out) {
    return Linear{
        .names = names, .mode = LinearMode::column, .rows = shape.tokens(), .in = in, .out = out};
  };
  // Fused into the projection up.
  const auto latent_norm = [](std::string_view module, std::string_view forward,
                              std::string_view backward, std::int64_t width) {
    return Norm{.module = module,
                .forward = forward,
                .backward = backward,
                .width = width,
                .is_fused = true};
  };
  return {.input_norm = {.module = "input_layernorm",
                         .forward = "input_layernorm",
                         .backward = "input_layernorm.backward",
                         .width = shape.h},
          .proj = {.names = kProj,
                   .mode = LinearMode::row,
                   .rows = shape.tokens(),
                   .in = a * mla.v_head_dim,
                   .out = shape.h,
                   .has_bias = model.add_bias_linear},
          .query_down = down(kQueryDown, mla.q_lora_rank),
          .query_up =
              up(is_query_narrow ? kQueryUp : kQuery, is_query_narrow ? mla.q_lora_rank : shape.h,
                 a * (mla.qk_head_dim + mla.qk_pos_emb_head_dim)),
          .query_norm =
              latent_norm(kQueryUp.module, "q_layernorm", "q_layernorm.backward", mla.q_lora_rank),
          .key_value_down = down(kKeyValueDown, mla.kv_lora_rank + mla.qk_pos_emb_head_dim),
          .key_value_up = up(kKeyValueUp, mla.kv_lora_rank, a * (mla.qk_head_dim + mla.v_head_dim)),
          .key_value_norm = latent_norm(kKeyValueUp.module, "kv_layernorm", "kv_layernorm.backward",
                                        mla.kv_lora_rank),
          .is_query_narrow = is_query_narrow,
          .has_norms = model.qk_layernorm};
}

void construct(Tape& tape, const Modules& modules) {
  construct(tape, modules.input_norm);
  construct_core_attention(tape);
  construct(tape, modules.proj);
  if (modules.is_query_narrow) {
    construct(tape, modules.query_down);
    if (modules.has_norms) construct(tape, modules.query_norm);
  }
  construct(tape, modules.query_up);
  construct(tape, modules.key_value_down);
  if (modules.has_norms) construct(tape, modules.key_value_norm);
  construct(tape, modules.key_value_up);
}

/// The narrow tensors that the projections up start from.
struct Latents {
  TensorId query, key_value, key_positions;
};

Latents down(Tape& tape, const Modules& modules, TensorId input) {
  const Shape& shape = tape.shape;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const bool norms = modules.has_norms;
  const std::int64_t rows = shape.region_tokens();
  Latents latents{.query = input};
  if (modules.is_query_narrow) {
    latents.query =
        tape.hidden(norms ? "q_layernorm" : "linear_q_up_proj", "input", mla.q_lora_rank);
    linear(tape, modules.query_down, input, latents.query);
  }
  const std::int64_t width = modules.key_value_down.out;
  const TensorId both = tape.hidden("linear_kv_down_proj", "output", width);
  linear(tape, modules.key_value_down, input, both);
  latents.key_value =
      tape.hidden(norms ? "kv_layernorm" : "linear_kv_up_proj", "input", mla.kv_lora_rank);
  // The positions' part is gathered over the sequence, for every head to share.
  latents.key_positions =
      tape.tensor("rotary", "key_positions", {shape.s, shape.b, mla.qk_pos_emb_head_dim},
                  shape.element, Cut::none);
  TapeNode split{.name = "split",
                 .inputs = {both},
                 .outputs = {latents.key_value, latents.key_positions},
                 .forward_kernels = {stream(tape, "split", 2 * rows * width)},
                 .backward_kernels = {stream(tape, "split.backward", 2 * rows * width)}};
  if (shape.sequence_parallel) {
    const std::int64_t bytes = shape.tokens() * mla.qk_pos_emb_head_dim * shape.element;
    tensor_collective(tape, split.forward_collectives, Collective::all_gather, bytes);
    tensor_collective(tape, split.backward_collectives, Collective::reduce_scatter, bytes);
  }
  tape.add(std::move(split));
  if (norms && modules.is_query_narrow) {
    latents.query = norm(tape, modules.query_norm, latents.query, {"linear_q_up_proj", "input"});
  }
  if (norms) {
    latents.key_value =
        norm(tape, modules.key_value_norm, latents.key_value, {"linear_kv_up_proj", "input"});
  }
  return latents;
}

struct Heads {
  TensorId query, key, value;
};

Heads up(Tape& tape, const Modules& modules, const Latents& latents) {
  const Shape& shape = tape.shape;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const std::int64_t a = shape.local_heads;
  const std::int64_t qk = mla.qk_head_dim + mla.qk_pos_emb_head_dim;
  const TensorId query = tape.inner("rotary", "query", modules.query_up.out);
  linear(tape, modules.query_up, latents.query, query);
  const TensorId both = tape.inner("rotary", "key_value", modules.key_value_up.out);
  linear(tape, modules.key_value_up, latents.key_value, both);
  // Heads are put together from their two parts, the second turned by its position.
  Heads heads{.query = tape.inner("core_attention", "query", a * qk),
              .key = tape.inner("core_attention", "key", a * qk),
              .value = tape.inner("core_attention", "value", a * mla.v_head_dim)};
  const std::int64_t moved = shape.tokens() * a * (2 * qk + mla.v_head_dim);
  tape.add({.name = "rotary",
            .inputs = {query},
            .outputs = {heads.query},
            .forward_kernels = {stream(tape, "rotary", 2 * moved)},
            .backward_kernels = {stream(tape, "rotary.backward", 2 * moved)}});
  tape.add({.name = "rotary",
            .inputs = {both, latents.key_positions},
            .outputs = {heads.key, heads.value}});
  return heads;
}

}  // namespace

TensorId LatentAttention::record(Tape& tape, TensorId input) const {
  const Shape& shape = tape.shape;
  const Modules modules = modules_of(tape.scenario, shape);
  construct(tape, modules);
  if (!tape.takes_nodes()) return input;

  const Train& train = tape.scenario.train;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const int norm_node = tape.num_nodes();
  const TensorId normed = norm(tape, modules.input_norm, input, {"linear_qkv_down", "input"});
  const Latents latents = down(tape, modules, normed);
  const int first_up = tape.num_nodes();
  const Heads heads = up(tape, modules, latents);
  const int last_up = tape.num_nodes() - 1;
  tape.module(OffloadModule::attn_norm, norm_node, norm_node);
  tape.module(OffloadModule::qkv_linear, norm_node + 1, last_up);
  const TensorId context = core_attention(tape,
                                          {.heads = shape.local_heads,
                                           .groups = shape.local_heads,
                                           .qk_dim = mla.qk_head_dim + mla.qk_pos_emb_head_dim,
                                           .v_dim = mla.v_head_dim,
                                           .window = window},
                                          heads.query, heads.key, heads.value);
  if (train.recomputes(RecomputeModule::mla_up_proj)) {
    tape.recompute(first_up, last_up, tape.num_nodes() - 1, true);
  }
  const TensorId out = tape.hidden("self_attention", "output");
  linear(tape, modules.proj, context, out);
  tape.module(OffloadModule::attn_proj, tape.num_nodes() - 1, tape.num_nodes() - 1);
  if (train.recomputes(RecomputeModule::layernorm)) {
    // Made again as the gradient of attention's output arrives.
    tape.recompute(norm_node, norm_node, tape.num_nodes() - 1, true);
  }
  return residual(tape,
                  {"self_attention", "self_attention.residual", "self_attention.residual.backward"},
                  out, input, {"pre_mlp_layernorm", "input"});
}

BlockFlops LatentAttention::flops(const Scenario& scenario, const Batch& batch) const {
  const Model& model = scenario.model;
  const MultiLatentAttention& mla = *model.mla;
  const auto h = static_cast<double>(model.hidden_size);
  const auto a = static_cast<double>(model.num_attention_heads);
  const auto qk = static_cast<double>(mla.qk_head_dim + mla.qk_pos_emb_head_dim);
  const auto v = static_cast<double>(mla.v_head_dim);
  const auto q_rank = static_cast<double>(mla.q_lora_rank);
  const auto kv_rank = static_cast<double>(mla.kv_lora_rank);
  // The ones are the norms of the narrow tensors.
  const double query = mla.q_lora_rank == 0 ? h * a * qk : q_rank * (h + a * qk + 1);
  const double key_value =
      kv_rank * (h + a * static_cast<double>(mla.qk_head_dim + mla.v_head_dim) + 1) +
      h * static_cast<double>(mla.qk_pos_emb_head_dim);
  return {.gemms = weight_flops(batch.tokens, query + key_value + a * v * h),
          .products = attention_flops(scenario, batch, a * (qk + v), window)};
}

}  // namespace pipeledger
