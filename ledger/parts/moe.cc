// Experts: router, dispatch to the ranks that hold them, grouped GEMMs, and the way back
// (Megatron's MoELayer, token_dispatcher.py).
#include <cmath>

#include "ledger/flops.h"
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

constexpr std::int64_t kFp32 = 4;
constexpr std::int64_t kIndex = 8;

constexpr Norm kNorm = {.module = "pre_mlp_layernorm",
                        .forward = "pre_mlp_layernorm",
                        .backward = "pre_mlp_layernorm.backward"};
constexpr LinearNames kRouter = {"mlp.router", "router", "router.dgrad", "router.wgrad"};
constexpr LinearNames kLatentDown = {"mlp.fc1_latent_proj", "fc1_latent_proj",
                                     "fc1_latent_proj.dgrad", "fc1_latent_proj.wgrad"};
constexpr LinearNames kLatentUp = {"mlp.fc2_latent_proj", "fc2_latent_proj",
                                   "fc2_latent_proj.dgrad", "fc2_latent_proj.wgrad"};
// Grouped, one module holds the first matrices of all local experts and another the second ones;
// else each expert is an MLP of its own.
constexpr LinearNames kFc1 = {"mlp.experts.linear_fc1", "experts.linear_fc1",
                              "experts.linear_fc1.dgrad", "experts.linear_fc1.wgrad"};
constexpr LinearNames kFc2 = {"mlp.experts.linear_fc2", "experts.linear_fc2",
                              "experts.linear_fc2.dgrad", "experts.linear_fc2.wgrad"};
constexpr std::string_view kLocalFc1 = "mlp.experts.local_experts.{}.linear_fc1";
constexpr std::string_view kLocalFc2 = "mlp.experts.local_experts.{}.linear_fc2";
constexpr LinearNames kSharedFc1 = {"mlp.shared_experts.linear_fc1", "shared_experts.linear_fc1",
                                    "shared_experts.linear_fc1.dgrad",
                                    "shared_experts.linear_fc1.wgrad"};
constexpr LinearNames kSharedFc2 = {"mlp.shared_experts.linear_fc2", "shared_experts.linear_fc2",
                                    "shared_experts.linear_fc2.dgrad",
                                    "shared_experts.linear_fc2.wgrad"};

/// Who holds what of the experts, and how many tokens come to a rank.
struct Grid {
  std::int64_t tokens = 0;  // of this rank: under sequence parallelism its share
  std::int64_t num_experts = 0, num_local = 0, topk = 0;
  std::int64_t ep = 1, etp = 1;
  std::int64_t width = 0;     // that the experts work in
  std::int64_t f = 0;         // of one expert, on this rank
  std::int64_t permuted = 0;  // copies of this rank's tokens, one for each of their experts
  std::int64_t arrived =
      0;  // copies at this rank's experts, before those of its expert-tensor group
  std::int64_t routed = 0;  // and with them
};

/// Copies that leave a rank: topk of each token; under a capacity that pads, the capacity of every
/// expert; under one that drops, no more than it (megatron.md 5.4, moe_utils.get_capacity).
std::int64_t permuted_tokens(const Scenario& scenario, std::int64_t tokens, std::int64_t topk,
                             std::int64_t num_experts) {
  const std::int64_t all = tokens * topk;
  if (!scenario.train.moe_expert_capacity_factor) return all;
  const auto capacity = static_cast<std::int64_t>(
      std::ceil(static_cast<double>(all) / static_cast<double>(num_experts) *
                *scenario.train.moe_expert_capacity_factor));
  const std::int64_t filled = capacity * num_experts;
  return scenario.train.moe_pad_expert_input_to_capacity ? filled : std::min(all, filled);
}

Grid grid_of(const Tape& tape) {
  const Scenario& scenario = tape.scenario;
  const MixtureOfExperts& moe = *scenario.model.moe;
  Grid grid{.tokens = tape.shape.region_tokens(),
            .num_experts = moe.num_experts,
            .num_local = moe.num_experts / scenario.parallel.expert_model_parallel_size,
            .topk = moe.router_topk,
            .ep = scenario.parallel.expert_model_parallel_size,
            .etp = scenario.parallel.expert_tensor_parallel_size,
            .width = moe.latent_size > 0 ? moe.latent_size : tape.shape.h};
  grid.f = moe.ffn_hidden_size / grid.etp;
  grid.permuted = permuted_tokens(scenario, grid.tokens, grid.topk, grid.num_experts);
  const bool padded = scenario.train.moe_pad_expert_input_to_capacity;
  grid.arrived = padded ? grid.permuted
                        : static_cast<std::int64_t>(std::ceil(static_cast<double>(grid.permuted) *
                                                              scenario.train.moe_imbalance_factor));
  grid.routed = grid.arrived * grid.etp;
  return grid;
}

struct Modules {
  Norm norm = kNorm;
  Linear router;
  Linear latent_down, latent_up;  // where experts work in another width
  Linear fc1, fc2;                // of the local experts
  Linear shared_fc1, shared_fc2;  // where there are shared experts
};

Modules modules_of(const Scenario& scenario, const Shape& shape, const Grid& grid) {
  const bool has_bias = scenario.model.add_bias_linear;
  const bool grouped = scenario.train.moe_grouped_gemm;
  const std::int64_t shared_f = scenario.model.moe->shared_expert_intermediate_size / shape.t;
  Modules modules{.router = {.names = kRouter,
                             .rows = grid.tokens,
                             .in = shape.h,
                             .out = grid.num_experts,
                             .has_bias = has_bias,
                             .fp8 = false,
                             .adds_gradient = false},
                  .latent_down = {.names = kLatentDown,
                                  .rows = grid.tokens,
                                  .in = shape.h,
                                  .out = grid.width,
                                  .has_bias = has_bias},
                  .latent_up = {.names = kLatentUp,
                                .rows = grid.tokens,
                                .in = grid.width,
                                .out = shape.h,
                                .has_bias = has_bias},
                  .fc1 = {.names = kFc1,
                          .mode = LinearMode::expert_column,
                          .rows = grid.routed,
                          .in = grid.width,
                          .out = shape.gate * grid.f,
                          .num_gemms = grid.num_local,
                          .has_bias = has_bias},
                  .fc2 = {.names = kFc2,
                          .mode = LinearMode::expert_row,
                          .rows = grid.routed,
                          .in = grid.f,
                          .out = grid.width,
                          .num_gemms = grid.num_local,
                          .has_bias = has_bias},
                  .shared_fc1 = {.names = kSharedFc1,
                                 .mode = LinearMode::column,
                                 .rows = shape.tokens(),
                                 .in = shape.h,
                                 .out = shape.gate * shared_f},
                  .shared_fc2 = {.names = kSharedFc2,
                                 .mode = LinearMode::row,
                                 .rows = shape.tokens(),
                                 .in = shared_f,
                                 .out = shape.h}};
  modules.norm.width = shape.h;
  if (!grouped) {
    modules.fc1.names.module = kLocalFc1;
    modules.fc2.names.module = kLocalFc2;
  }
  return modules;
}

void construct_experts(Tape& tape, const Modules& modules, int num_local) {
  const bool grouped = tape.scenario.train.moe_grouped_gemm;
  for (int i = 0; i < num_local; ++i) {
    construct(tape, modules.fc1, i);
    if (!grouped) construct(tape, modules.fc2, i);
  }
  for (int i = 0; grouped && i < num_local; ++i) construct(tape, modules.fc2, i);
}

void construct(Tape& tape, const Modules& modules, const Grid& grid) {
  const MixtureOfExperts& moe = *tape.scenario.model.moe;
  construct(tape, modules.norm);
  construct(tape, modules.router);
  // The bias that balances each expert's load, and its count of tokens: fp32 beside the
  // parameters, on every rank (TopKRouter).
  if (moe.router_enable_expert_bias) tape.buffer(2 * kFp32 * grid.num_experts);
  if (moe.latent_size > 0) {
    construct(tape, modules.latent_down);
    construct(tape, modules.latent_up);
  }
  construct_experts(tape, modules, static_cast<int>(grid.num_local));
  if (moe.shared_expert_intermediate_size == 0) return;
  if (moe.shared_expert_gate) {
    tape.weight({.module = "mlp.shared_experts",
                 .name = "gate_weight",
                 .numel = tape.shape.h,
                 .role = ParameterRole::matrix});
  }
  construct(tape, modules.shared_fc1);
  construct(tape, modules.shared_fc2);
}

TensorId rows(Tape& tape, std::string_view module, std::string_view name, std::int64_t n,
              std::int64_t width) {
  return tape.tensor(module, name, {n, width}, tape.shape.element, Cut::none);
}

TensorId per_token(Tape& tape, std::string_view module, std::string_view name, std::int64_t n,
                   std::int64_t width, std::int64_t element) {
  return tape.statistic(tape.tensor(module, name, {n, width}, element, Cut::none));
}

/// A collective over the experts' groups; nothing where the group is one rank.
void move(std::vector<StepCollective>& list, Collective kind, CommGroup group, std::int64_t size,
          std::int64_t bytes) {
  if (size > 1) list.push_back({kind, group, Bytes(bytes)});
}

/// The tokens' experts and their weights: logits, scores and probabilities in fp32, the map as
/// one byte an expert, and the scores again for the balancing loss.
TensorId router(Tape& tape, const Grid& grid, const Linear& gating, TensorId input) {
  const std::int64_t all = grid.tokens * grid.num_experts;
  const TensorId logits = per_token(tape, "router", "logits", grid.tokens, grid.num_experts, kFp32);
  linear(tape, gating, input, logits);
  const TensorId scores = per_token(tape, "router", "scores", grid.tokens, grid.num_experts, kFp32);
  const TensorId probs = per_token(tape, "router", "probs", grid.tokens, grid.num_experts, kFp32);
  const TensorId balance =
      per_token(tape, "router", "balance_scores", grid.tokens, grid.num_experts, kFp32);
  const TensorId map = per_token(tape, "router", "routing_map", grid.tokens, grid.num_experts, 1);
  const TensorId chosen = per_token(tape, "router", "chosen", grid.tokens, grid.topk, kIndex);
  tape.add(
      {.name = "router.topk",
       .inputs = {logits},
       .outputs = {probs, scores, balance, map, chosen},
       .saved = {scores, balance, map, chosen},
       .forward_kernels = {{.name = "router.topk", .bytes = Bytes(5 * kFp32 * all)}},
       .backward_kernels = {{.name = "router.topk.backward", .bytes = Bytes(4 * kFp32 * all)}}});
  return probs;
}

/// Tokens and their probabilities on the way to the experts.
struct Routed {
  TensorId tokens, probs;
};

/// One copy of a token for each of its experts, in the experts' order.
Routed permute(Tape& tape, const Grid& grid, std::int64_t from, std::int64_t to, TensorId tokens,
               TensorId probs, TensorName name) {
  const bool fused = tape.scenario.train.moe_permute_fusion;
  Routed out{.tokens = rows(tape, name.module, name.name, to, grid.width),
             .probs = per_token(tape, "activation", "probs", to, 1, kFp32)};
  // The fused kernels keep a map of rows by expert, the others the chosen rows' numbers.
  const TensorId map =
      fused ? per_token(tape, "permute", "row_id_map", from, 2 * grid.num_experts + 1, 4)
            : per_token(tape, "permute", "sorted_indices", to, 1, kIndex);
  tape.add({.name = "permute",
            .inputs = {tokens, probs},
            .outputs = {out.tokens, out.probs, map},
            .saved = {map},
            .forward_kernels = {stream(tape, "permute", (from + to) * grid.width)},
            .backward_kernels = {stream(tape, "permute.backward", (from + to) * grid.width)}});
  return out;
}

/// Adds the copies of each token.
TensorId unpermute(Tape& tape, const Grid& grid, std::int64_t from, std::int64_t to,
                   TensorId tokens) {
  const TensorId out = rows(tape, "unpermute", "output", to, grid.width);
  tape.add({.name = "unpermute",
            .inputs = {tokens},
            .outputs = {out},
            .forward_kernels = {stream(tape, "unpermute", (from + to) * grid.width)},
            .backward_kernels = {stream(tape, "unpermute.backward", (from + to) * grid.width)}});
  return out;
}

/// A copy in another order, of `n` rows; its backward is one too.
TensorId sorted(Tape& tape, const Grid& grid, std::int64_t n, TensorId tokens, TensorName name) {
  const TensorId out = rows(tape, name.module, name.name, n, grid.width);
  tape.add({.name = "sort",
            .inputs = {tokens},
            .outputs = {out},
            .forward_kernels = {stream(tape, "sort", 2 * n * grid.width)},
            .backward_kernels = {stream(tape, "sort.backward", 2 * n * grid.width)}});
  return out;
}

/// fc1, activation weighted by the probabilities, fc2, over the tokens that came.
TensorId grouped_mlp(Tape& tape, const Grid& grid, const Modules& modules, const Routed& routed) {
  const Shape& shape = tape.shape;
  const TensorId wide = rows(tape, "experts.activation", "input", grid.routed, shape.gate * grid.f);
  linear(tape, modules.fc1, routed.tokens, wide);
  const int act = tape.num_nodes();
  tape.module(OffloadModule::expert_fc1, act - 1, act - 1);
  const TensorId narrow = rows(tape, "experts.linear_fc2", "input", grid.routed, grid.f);
  activation(tape, grid.routed, grid.f, wide, narrow, routed.probs);
  const int act_end = tape.num_nodes() - 1;
  const TensorId out = rows(tape, "combine", "input", grid.routed, grid.width);
  linear(tape, modules.fc2, narrow, out);
  // One expert after the other: their outputs are there as they are joined.
  if (!tape.scenario.train.moe_grouped_gemm)
    tape.node(act_end + 1).forward_workspace += grid.routed * grid.width * shape.element;
  tape.module(OffloadModule::moe_act, act, act_end);
  if (tape.scenario.train.recomputes(RecomputeModule::moe_act)) {
    tape.recompute(act, act_end, tape.num_nodes() - 1, true);
  }
  return out;
}

/// Permute, all-to-all, gather over the expert-tensor group, sort; and back.
TensorId all_to_all_experts(Tape& tape, const Grid& grid, const Modules& modules, TensorId tokens,
                            TensorId probs) {
  using enum Collective;
  const std::int64_t e = tape.shape.element;
  const bool sorts = grid.num_local > 1;
  const Routed permuted =
      permute(tape, grid, grid.tokens, grid.permuted, tokens, probs, {"dispatch", "input"});
  const std::int64_t sent = grid.permuted * grid.width * e;
  const std::int64_t gathered = grid.routed * grid.width * e;
  const std::string_view reader = sorts ? "sort" : "experts.linear_fc1";
  Routed routed{.tokens = rows(tape, reader, "input", grid.routed, grid.width),
                .probs = per_token(tape, "experts.activation", "probs", grid.routed, 1, kFp32)};
  TapeNode dispatch{.name = "dispatch", .inputs = {permuted.tokens}, .outputs = {routed.tokens}};
  // Before the expert-tensor ranks share what came, each has its part alone.
  if (grid.etp > 1) dispatch.forward_workspace = dispatch.backward_workspace = gathered / grid.etp;
  for (auto* list : {&dispatch.forward_collectives, &dispatch.backward_collectives}) {
    move(*list, all_to_all, CommGroup::expert, grid.ep, sent);
    move(*list, all_to_all, CommGroup::expert, grid.ep, grid.permuted * kFp32);
  }
  move(dispatch.forward_collectives, all_gather, CommGroup::expert_tensor, grid.etp, gathered);
  move(dispatch.backward_collectives, reduce_scatter, CommGroup::expert_tensor, grid.etp, gathered);
  tape.add(std::move(dispatch));
  tape.add({.name = "dispatch.probs", .inputs = {permuted.probs}, .outputs = {routed.probs}});
  const TensorId arrived = routed.tokens;
  if (sorts) {
    routed.tokens = sorted(tape, grid, grid.routed, routed.tokens, {"experts.linear_fc1", "input"});
  }
  TensorId out = grouped_mlp(tape, grid, modules, routed);
  if (sorts) out = sorted(tape, grid, grid.routed, out, {"combine", "sorted"});
  const TensorId back = rows(tape, "unpermute", "input", grid.permuted, grid.width);
  TapeNode combine{.name = "combine", .inputs = {out}, .outputs = {back}};
  if (grid.etp > 1) combine.forward_workspace = combine.backward_workspace = gathered / grid.etp;
  move(combine.forward_collectives, reduce_scatter, CommGroup::expert_tensor, grid.etp, gathered);
  move(combine.backward_collectives, all_gather, CommGroup::expert_tensor, grid.etp, gathered);
  for (auto* list : {&combine.forward_collectives, &combine.backward_collectives}) {
    move(*list, all_to_all, CommGroup::expert, grid.ep, sent);
  }
  tape.add(std::move(combine));
  // The layer's forward holds all three in variables until it returns.
  for (const TensorId id : {permuted.tokens, arrived, out}) tape.hold(id, tape.num_nodes());
  return unpermute(tape, grid, grid.permuted, grid.tokens, back);
}

/// Every rank of the expert group gets all tokens, and keeps those of its experts.
TensorId gathered_experts(Tape& tape, const Grid& grid, const Modules& modules, TensorId tokens,
                          TensorId probs) {
  using enum Collective;
  const std::int64_t group = grid.ep * grid.etp;
  const std::int64_t all = grid.tokens * group;
  const std::int64_t bytes = all * grid.width * tape.shape.element;
  TensorId whole = tokens, whole_probs = probs;
  if (group > 1) {
    whole = rows(tape, "permute", "input", all, grid.width);
    whole_probs = per_token(tape, "permute", "probs", all, grid.num_experts, kFp32);
    TapeNode gather{.name = "dispatch", .inputs = {tokens}, .outputs = {whole}};
    move(gather.forward_collectives, all_gather, CommGroup::tensor_expert, group, bytes);
    move(gather.forward_collectives, all_gather, CommGroup::tensor_expert, group,
         all * grid.num_experts * kFp32);
    move(gather.backward_collectives, reduce_scatter, CommGroup::tensor_expert, group, bytes);
    move(gather.backward_collectives, reduce_scatter, CommGroup::tensor_expert, group,
         all * grid.num_experts * kFp32);
    tape.add(std::move(gather));
    tape.add({.name = "dispatch.probs", .inputs = {probs}, .outputs = {whole_probs}});
  }
  const Routed routed =
      permute(tape, grid, all, grid.routed, whole, whole_probs, {"experts.linear_fc1", "input"});
  const TensorId out =
      unpermute(tape, grid, grid.routed, all, grouped_mlp(tape, grid, modules, routed));
  if (group == 1) return out;
  const TensorId mine = rows(tape, "combine", "output", grid.tokens, grid.width);
  TapeNode scatter{.name = "combine", .inputs = {out}, .outputs = {mine}};
  move(scatter.forward_collectives, reduce_scatter, CommGroup::tensor_expert, group, bytes);
  move(scatter.backward_collectives, all_gather, CommGroup::tensor_expert, group, bytes);
  tape.add(std::move(scatter));
  tape.hold(whole, tape.num_nodes() - 1);
  return mine;
}

/// DeepEP: a token goes once to each rank that holds experts of it, is copied there, and what
/// its experts made is summed before it goes back.
TensorId flex_experts(Tape& tape, const Grid& grid, const Modules& modules, TensorId tokens,
                      TensorId probs) {
  const std::int64_t group = grid.ep * grid.etp;
  // With experts chosen evenly, a token misses a rank with probability (1 - 1/ep)^topk.
  const double reached =
      static_cast<double>(grid.ep) *
      (1 - std::pow(1 - 1 / static_cast<double>(grid.ep), static_cast<double>(grid.topk)));
  const auto received =
      static_cast<std::int64_t>(std::ceil(static_cast<double>(grid.tokens * grid.etp) * reached *
                                          tape.scenario.train.moe_imbalance_factor));
  const std::int64_t bytes = received * grid.width * tape.shape.element;
  const TensorId here = rows(tape, "permute", "input", received, grid.width);
  const TensorId here_probs = per_token(tape, "permute", "probs", received, grid.topk, kFp32);
  TapeNode dispatch{.name = "dispatch", .inputs = {tokens}, .outputs = {here}};
  TapeNode combine{.name = "combine"};
  for (auto* list : {&dispatch.forward_collectives, &dispatch.backward_collectives,
                     &combine.forward_collectives, &combine.backward_collectives}) {
    move(*list, Collective::all_to_all, CommGroup::tensor_expert, group, bytes);
  }
  tape.add(std::move(dispatch));
  tape.add({.name = "dispatch.probs", .inputs = {probs}, .outputs = {here_probs}});
  const Routed routed =
      permute(tape, grid, received, grid.routed, here, here_probs, {"experts.linear_fc1", "input"});
  const TensorId sum =
      unpermute(tape, grid, grid.routed, received, grouped_mlp(tape, grid, modules, routed));
  const TensorId mine = rows(tape, "combine", "output", grid.tokens, grid.width);
  combine.inputs = {sum};
  combine.outputs = {mine};
  tape.add(std::move(combine));
  return mine;
}

/// Experts that see every token, tensor-parallel as a dense MLP; optionally behind a gate.
TensorId shared_experts(Tape& tape, const Modules& modules, TensorId input) {
  const Shape& shape = tape.shape;
  const MixtureOfExperts& moe = *tape.scenario.model.moe;
  const std::int64_t f = modules.shared_fc2.in;
  const int first = tape.num_nodes();
  const TensorId wide = tape.inner("shared_experts.activation", "input", modules.shared_fc1.out);
  linear(tape, modules.shared_fc1, input, wide);
  const TensorId narrow = tape.inner("shared_experts.linear_fc2", "input", f);
  activation(tape, shape.tokens(), f, wide, narrow);
  TensorId out = tape.hidden("shared_experts", "output");
  linear(tape, modules.shared_fc2, narrow, out);
  if (moe.shared_expert_gate) {
    const TensorId gated = tape.hidden("shared_experts", "gated");
    const TensorId score =
        per_token(tape, "shared_experts", "gate_score", shape.region_tokens(), 1, shape.element);
    tape.add({.name = "shared_experts.gate",
              .inputs = {out, input},
              .outputs = {gated, score},
              .saved = {out, input, score},
              .forward_kernels = {stream(tape, "shared_experts.gate", 3 * shape.region_hidden())},
              .backward_kernels = {
                  stream(tape, "shared_experts.gate.backward", 5 * shape.region_hidden())}});
    out = gated;
  }
  const int last = tape.num_nodes() - 1;
  if (tape.scenario.train.recomputes(RecomputeModule::shared_experts)) {
    tape.recompute(first, last, last, false);
  }
  return out;
}

TensorId routed_experts(Tape& tape, const Grid& grid, const Modules& modules, TensorId input,
                        TensorId probs) {
  TensorId tokens = input;
  const bool latent = tape.scenario.model.moe->latent_size > 0;
  if (latent) {
    tokens = tape.hidden("dispatch", "latent", grid.width);
    linear(tape, modules.latent_down, input, tokens);
  }
  TensorId out = -1;
  switch (tape.scenario.train.moe_token_dispatcher_type) {
    case MoeTokenDispatcherType::allgather:
      out = gathered_experts(tape, grid, modules, tokens, probs);
      break;
    case MoeTokenDispatcherType::alltoall:
      out = all_to_all_experts(tape, grid, modules, tokens, probs);
      break;
    case MoeTokenDispatcherType::flex:
      out = flex_experts(tape, grid, modules, tokens, probs);
      break;
  }
  if (!latent) return out;
  const TensorId wide = tape.hidden("experts", "output");
  linear(tape, modules.latent_up, out, wide);
  return wide;
}

}  // namespace

TensorId Experts::record(Tape& tape, TensorId input) const {
  const Grid grid = grid_of(tape);
  const Modules modules = modules_of(tape.scenario, tape.shape, grid);
  construct(tape, modules, grid);
  if (!tape.takes_nodes()) return input;

  const Train& train = tape.scenario.train;
  const int norm_node = tape.num_nodes();
  const TensorId normed = norm(tape, modules.norm, input, {"router", "input"});
  const int first = tape.num_nodes();
  tape.module(OffloadModule::mlp_norm, norm_node, norm_node);
  const bool shares = tape.scenario.model.moe->shared_expert_intermediate_size > 0;
  const TensorId shared = shares ? shared_experts(tape, modules, normed) : -1;
  const TensorId probs = router(tape, grid, modules.router, normed);
  TensorId out = routed_experts(tape, grid, modules, normed, probs);
  if (shares) {
    const TensorId sum = tape.hidden("mlp", "output");
    tape.add(
        {.name = "shared_experts.sum",
         .inputs = {out, shared},
         .outputs = {sum},
         .passes_gradient = true,
         .forward_kernels = {stream(tape, "shared_experts.sum", 3 * tape.shape.region_hidden())}});
    out = sum;
  }
  const int last = tape.num_nodes() - 1;
  if (train.recomputes(RecomputeModule::moe)) {
    tape.recompute(first, last, last, false);
  } else if (train.recomputes(RecomputeModule::layernorm)) {
    tape.recompute(norm_node, norm_node, last, true);
  }
  return residual(tape, {"mlp", "mlp.residual", "mlp.residual.backward"}, out, input,
                  {"mlp", "sum"});
}

BlockFlops Experts::flops(const Scenario& scenario, const Batch& batch) const {
  const Model& model = scenario.model;
  const MixtureOfExperts& moe = *model.moe;
  const auto h = static_cast<double>(model.hidden_size);
  const double matrices = model.swiglu ? 3 : 2;
  const auto latent_size = static_cast<double>(moe.latent_size);
  const double width = moe.latent_size > 0 ? latent_size : h;
  const double weights =
      matrices * width * static_cast<double>(moe.ffn_hidden_size) * moe.router_topk +
      2 * h * latent_size + matrices * h * static_cast<double>(moe.shared_expert_intermediate_size);
  return {.gemms = weight_flops(batch.tokens, weights)};
}

}  // namespace pipeledger
