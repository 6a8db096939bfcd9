// Multi-latent attention (Megatron's MLASelfAttention): queries, keys and values pass through
// narrow projections, which every tensor-parallel rank holds whole and runs on its part of the
// sequence.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr LinearNames kQuery = {"linear_q_proj", "linear_q_proj.dgrad", "linear_q_proj.wgrad"};
constexpr LinearNames kQueryDown = {"linear_q_down_proj", "linear_q_down_proj.dgrad",
                                    "linear_q_down_proj.wgrad"};
constexpr LinearNames kQueryUp = {"linear_q_up_proj", "linear_q_up_proj.dgrad",
                                  "linear_q_up_proj.wgrad"};
constexpr LinearNames kKeyValueDown = {"linear_kv_down_proj", "linear_kv_down_proj.dgrad",
                                       "linear_kv_down_proj.wgrad"};
constexpr LinearNames kKeyValueUp = {"linear_kv_up_proj", "linear_kv_up_proj.dgrad",
                                     "linear_kv_up_proj.wgrad"};
constexpr LinearNames kProj = {"linear_proj", "linear_proj.dgrad", "linear_proj.wgrad"};

/// The narrow tensors that the projections up start from.
struct Latents {
  TensorId query, key_value, key_positions;
};

TensorId normed_latent(Tape& tape, const NormNames& names, TensorId latent, TensorName output) {
  return tape.scenario.model.qk_layernorm ? norm(tape, names, latent, output) : latent;
}

Latents down(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const bool norms = tape.scenario.model.qk_layernorm;
  const std::int64_t rows = shape.region_tokens();
  Latents latents{.query = input};
  if (mla.q_lora_rank > 0) {
    latents.query =
        tape.hidden(norms ? "q_layernorm" : "linear_q_up_proj", "input", mla.q_lora_rank);
    linear(tape, {.names = kQueryDown, .rows = rows, .in = shape.h, .out = mla.q_lora_rank}, input,
           latents.query);
  }
  const std::int64_t width = mla.kv_lora_rank + mla.qk_pos_emb_head_dim;
  const TensorId both = tape.hidden("linear_kv_down_proj", "output", width);
  linear(tape, {.names = kKeyValueDown, .rows = rows, .in = shape.h, .out = width}, input, both);
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
  if (mla.q_lora_rank > 0) {
    latents.query = normed_latent(tape, {"q_layernorm", "q_layernorm.backward"}, latents.query,
                                  {"linear_q_up_proj", "input"});
  }
  latents.key_value = normed_latent(tape, {"kv_layernorm", "kv_layernorm.backward"},
                                    latents.key_value, {"linear_kv_up_proj", "input"});
  return latents;
}

struct Heads {
  TensorId query, key, value;
};

Heads up(Tape& tape, const Latents& latents) {
  const Shape& shape = tape.shape;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const std::int64_t a = shape.local_heads;
  const std::int64_t qk = mla.qk_head_dim + mla.qk_pos_emb_head_dim;
  const bool narrow = mla.q_lora_rank > 0;
  const TensorId query = tape.inner("rotary", "query", a * qk);
  linear(tape,
         {.names = narrow ? kQueryUp : kQuery,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = narrow ? mla.q_lora_rank : shape.h,
          .out = a * qk},
         latents.query, query);
  const std::int64_t kv = a * (mla.qk_head_dim + mla.v_head_dim);
  const TensorId both = tape.inner("rotary", "key_value", kv);
  linear(tape,
         {.names = kKeyValueUp,
          .mode = LinearMode::column,
          .rows = shape.tokens(),
          .in = mla.kv_lora_rank,
          .out = kv},
         latents.key_value, both);
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

TensorId latent_attention(Tape& tape, TensorId input) {
  const Shape& shape = tape.shape;
  const Train& train = tape.scenario.train;
  const MultiLatentAttention& mla = *tape.scenario.model.mla;
  const int norm_node = tape.num_nodes();
  const TensorId normed = norm(tape, {"input_layernorm", "input_layernorm.backward"}, input,
                               {"linear_qkv_down", "input"});
  const Latents latents = down(tape, normed);
  const int first_up = tape.num_nodes();
  const Heads heads = up(tape, latents);
  const int last_up = tape.num_nodes() - 1;
  tape.module(OffloadModule::attn_norm, norm_node, norm_node);
  tape.module(OffloadModule::qkv_linear, norm_node + 1, last_up);
  const TensorId context = core_attention(tape,
                                          {.heads = shape.local_heads,
                                           .groups = shape.local_heads,
                                           .qk_dim = mla.qk_head_dim + mla.qk_pos_emb_head_dim,
                                           .v_dim = mla.v_head_dim},
                                          heads.query, heads.key, heads.value);
  if (train.recomputes(RecomputeModule::mla_up_proj)) {
    tape.recompute(first_up, last_up, tape.num_nodes() - 1, true);
  }
  const TensorId out = tape.hidden("self_attention", "output");
  linear(tape,
         {.names = kProj,
          .mode = LinearMode::row,
          .rows = shape.tokens(),
          .in = shape.local_heads * mla.v_head_dim,
          .out = shape.h},
         context, out);
  tape.module(OffloadModule::attn_proj, tape.num_nodes() - 1, tape.num_nodes() - 1);
  if (train.recomputes(RecomputeModule::layernorm)) {
    // Made again as the gradient of attention's output arrives.
    tape.recompute(norm_node, norm_node, tape.num_nodes() - 1, true);
  }
  return residual(tape,
                  {"self_attention", "self_attention.residual", "self_attention.residual.backward"},
                  out, input, {"pre_mlp_layernorm", "input"});
}

}  // namespace pipeledger
