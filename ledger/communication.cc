#include "ledger/communication.h"

#include "ledger/shape.h"

namespace pipeledger {
namespace {

using Collectives = std::vector<TensorParallelCollective>;

/// A collective on a whole hidden state, and the kernel it runs beside.
struct Hidden {
  Collective kind;
  std::string_view beside = {};
};

/// s*b*h elements each; none at t = 1. The first list is what sequence parallelism does, the
/// second what runs without it.
Collectives hidden_collectives(const Scenario& scenario, std::initializer_list<Hidden> sequence,
                               std::initializer_list<Hidden> plain) {
  const Shape shape = shape_of(scenario);
  Collectives list;
  if (shape.t == 1) return list;
  const Bytes bytes(shape.tokens() * shape.h * shape.element);
  for (const Hidden& hidden : shape.sequence_parallel ? sequence : plain) {
    list.push_back({hidden.kind, bytes, hidden.beside});
  }
  return list;
}

}  // namespace

std::vector<TensorParallelCollective> layer_forward_collectives(const Scenario& scenario) {
  using enum Collective;
  // QKV and FC1 gather the sequence, the projection and FC2 scatter their sums.
  return hidden_collectives(scenario,
                            {{all_gather}, {reduce_scatter}, {all_gather}, {reduce_scatter}},
                            {{all_reduce}, {all_reduce}});
}

std::vector<TensorParallelCollective> layer_backward_collectives(const Scenario& scenario) {
  using enum Collective;
  // Row-parallel: gather the gradient. Column-parallel: gather the input again for the weight's
  // gradient while the input's is computed, and scatter (or sum) that one while the weight's is.
  // FC2, FC1, projection, QKV.
  return hidden_collectives(scenario,
                            {{all_gather},
                             {all_gather, "linear_fc1.dgrad"},
                             {reduce_scatter, "linear_fc1.wgrad"},
                             {all_gather},
                             {all_gather, "linear_qkv.dgrad"},
                             {reduce_scatter, "linear_qkv.wgrad"}},
                            {{all_reduce, "linear_fc1.wgrad"}, {all_reduce, "linear_qkv.wgrad"}});
}

std::vector<TensorParallelCollective> embedding_forward_collectives(const Scenario& scenario) {
  return hidden_collectives(scenario, {{Collective::reduce_scatter}}, {{Collective::all_reduce}});
}

std::vector<TensorParallelCollective> embedding_backward_collectives(const Scenario& scenario) {
  return hidden_collectives(scenario, {{Collective::all_gather}}, {});
}

std::vector<TensorParallelCollective> head_forward_collectives(const Scenario& scenario) {
  Collectives list = hidden_collectives(scenario, {{Collective::all_gather}}, {});
  if (scenario.parallel.tensor_model_parallel_size == 1) return list;
  // The loss over a cut vocabulary: maximum, predicted logit and sum of exponentials, fp32.
  const Bytes per_token(4 * shape_of(scenario).tokens());
  for (int i = 0; i < 3; ++i) list.push_back({Collective::all_reduce, per_token});
  return list;
}

std::vector<TensorParallelCollective> head_backward_collectives(const Scenario& scenario) {
  return hidden_collectives(scenario,
                            {{Collective::all_gather, "output_layer.dgrad"},
                             {Collective::reduce_scatter, "output_layer.wgrad"}},
                            {{Collective::all_reduce, "output_layer.wgrad"}});
}

Bytes p2p_message_bytes(const Scenario& scenario) {
  const Shape shape = shape_of(scenario);
  return Bytes(shape.region_hidden() * shape.element);
}

Bytes tied_embedding_gradient_bytes(const Scenario& scenario) {
  if (scenario.model.untie_embeddings_and_output_weights ||
      scenario.parallel.pipeline_model_parallel_size == 1) {
    return Bytes{};
  }
  const Shape shape = shape_of(scenario);
  return Bytes(shape.local_vocab * shape.h * gradient_element_bytes(scenario));
}

}  // namespace pipeledger
