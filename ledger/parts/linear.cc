// A linear layer as a module (parts.h): its weight, GEMMs and collectives.
#include "ledger/parts/parts.h"

namespace pipeledger {
namespace {

// Blockwise scaling keeps an fp32 scale for each 128 elements, MXFP8 a byte for each 32.
constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kMxBlock = 32;

bool is_fp8(const Tape& tape, const Linear& layer) {
  return layer.fp8 && tape.scenario.train.fp8.has_value();
}

ParameterRole role_of(const Tape& tape, const Linear& layer) {
  if (layer.is_vocabulary) return ParameterRole::embedding;
  return layer.fp8 && tape.has_fp8 ? ParameterRole::linear : ParameterRole::matrix;
}

bool is_experts(const Linear& layer) {
  return layer.mode == LinearMode::expert_column || layer.mode == LinearMode::expert_row;
}

/// The 8-bit copy of a linear layer's input, and its scales where a recipe keeps them by block.
void quantize(Tape& tape, const Linear& layer, TensorIds& saved, TensorIds& outputs) {
  const Cut cut = layer.mode == LinearMode::row ? Cut::tensor_parallel : tape.region();
  const bool gathered = layer.mode == LinearMode::column && tape.shape.sequence_parallel;
  const std::int64_t rows = gathered ? layer.rows / tape.shape.t : layer.rows;
  const auto keep = [&](TensorId id) {
    saved.push_back(id);
    outputs.push_back(id);
  };
  keep(tape.tensor(layer.names.forward, "input_fp8", {rows, layer.in}, 1, cut));
  const Fp8Recipe recipe = tape.scenario.train.fp8->recipe;
  if (recipe == Fp8Recipe::blockwise) {
    keep(tape.statistic(
        tape.tensor(layer.names.forward, "input_scales", {rows, layer.in / kBlock}, 4, cut)));
  } else if (recipe == Fp8Recipe::mxfp8) {
    keep(tape.statistic(
        tape.tensor(layer.names.forward, "input_scales", {rows, layer.in / kMxBlock}, 1, cut)));
  }
}

struct LinearKernels {
  Kernel forward, dgrad, wgrad;
};

/// Each GEMM moves its three matrices. The weight's gradient is added in place to the gradient
/// buffer (gradient accumulation fusion), which is read and written; without the fusion it is
/// written in the parameter's type first. With FP8 both inputs are 8-bit, and each 16-bit tensor
/// is read once and written twice (as it is, transposed) to become so.
LinearKernels kernels(const Tape& tape, const Linear& layer) {
  const std::int64_t m = layer.rows, n = layer.out, k = layer.in;
  const std::int64_t e = tape.shape.element;
  const std::int64_t weights = layer.num_gemms * n * k;
  const std::int64_t buffer = 2 * gradient_element_bytes(tape.scenario) * weights;
  const bool fused = tape.scenario.train.gradient_accumulation_fusion;
  const std::int64_t written = buffer + (fused ? 0 : 2 * e * weights);
  const bool fp8 = is_fp8(tape, layer);
  const std::int64_t i = fp8 ? 1 : e;
  const std::int64_t cast = fp8 ? e + 2 : 0;
  const Flops flops(gemm_flops(m, n, k));
  return {{.name = layer.names.forward,
           .flops = flops,
           .bytes = Bytes(i * (m * k + weights) + e * m * n + cast * m * k),
           .fp8 = fp8},
          {.name = layer.names.dgrad,
           .flops = flops,
           .bytes = Bytes(i * (m * n + weights) + e * m * k + cast * m * n),
           .fp8 = fp8},
          {.name = layer.names.wgrad,
           .flops = flops,
           .bytes = Bytes(i * (m * k + m * n) + written),
           .weight = true,
           .fp8 = fp8}};
}

}  // namespace

void construct(Tape& tape, const Linear& layer, int expert) {
  const std::int64_t out = layer.weight_out > 0 ? layer.weight_out : layer.out;
  const bool is_of_experts = is_experts(layer);
  // A module that holds all local experts numbers their weights.
  const bool is_grouped = is_of_experts && layer.names.module.find('{') == std::string_view::npos;
  Weight weight{.module = layer.names.module,
                .name = is_grouped ? "weight{}" : "weight",
                .numel = out * layer.in,
                .columns = layer.adds_gradient ? layer.in : 0,
                .tensor_parallel = layer.mode != LinearMode::replicated,
                .expert = is_of_experts,
                .role = role_of(tape, layer),
                .number = expert};
  tape.weight(weight);
  if (!layer.has_bias) return;
  weight.name = is_grouped ? "bias{}" : "bias";
  weight.numel = out;
  weight.columns = 0;
  weight.tensor_parallel =
      layer.mode == LinearMode::column || layer.mode == LinearMode::expert_column;
  weight.role = ParameterRole::vector;
  tape.weight(weight);
}

double gemm_flops(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

Kernel stream(const Tape& tape, std::string_view name, std::int64_t elements) {
  return {.name = name, .bytes = Bytes(elements * tape.shape.element)};
}

void tensor_collective(const Tape& tape, std::vector<StepCollective>& list, Collective kind,
                       std::int64_t bytes, std::string_view beside) {
  if (tape.shape.t > 1) {
    list.push_back({kind, CommGroup::tensor, Bytes(bytes), beside});
  }
}

void linear(Tape& tape, const Linear& layer, TensorId input, TensorId output) {
  const bool fp8 = is_fp8(tape, layer);
  const std::int64_t element = fp8 ? 1 : tape.shape.element;
  const bool trained = !tape.is_frozen;
  TapeNode node{.name = layer.names.forward, .outputs = {output}, .has_weight = trained};
  (layer.has_dgrad ? node.inputs : node.reads) = {input};
  if (trained && fp8) {
    quantize(tape, layer, node.saved, node.outputs);
  } else if (trained) {
    node.saved = {input};
  }
  const LinearKernels kernels_of = kernels(tape, layer);
  node.forward_kernels = {kernels_of.forward};
  if (layer.has_dgrad) node.backward_kernels.push_back(kernels_of.dgrad);
  if (trained) node.backward_kernels.push_back(kernels_of.wgrad);
  if (fp8) node.backward_workspace += 2 * layer.rows * layer.out;
  if (trained && !tape.scenario.train.gradient_accumulation_fusion) {
    node.weight_workspace += layer.num_gemms * layer.in * layer.out * tape.shape.element;
  }
  const bool is_cut = layer.mode == LinearMode::column || layer.mode == LinearMode::row;
  const bool cut = is_cut && tape.shape.t > 1;
  const std::int64_t whole_in = layer.rows * layer.in;
  const std::int64_t whole_out = layer.rows * layer.out;
  const std::int64_t e = tape.shape.element;
  // What hides the sum of the input's gradient.
  const std::string_view wgrad = trained ? layer.names.wgrad : std::string_view{};
  using enum Collective;
  if (cut && layer.mode == LinearMode::column && tape.shape.sequence_parallel) {
    // The gathered input lives in forward and, for the weight's gradient, again in backward,
    // beside the whole gradient of the input that is then scattered.
    const bool is_local = tape.scenario.train.transformer_impl == TransformerImpl::local;
    if (!layer.is_native && !is_local) {
      node.forward_workspace += whole_in * element;
      if (trained) node.weight_workspace += whole_in * element;
    }
    node.backward_workspace += whole_in * e;
    tensor_collective(tape, node.forward_collectives, all_gather, whole_in * e);
    if (trained) {
      tensor_collective(tape, node.backward_collectives, all_gather, whole_in * e,
                        layer.names.dgrad);
      node.backward_collectives.back().weight = true;
    }
    tensor_collective(tape, node.backward_collectives, reduce_scatter, whole_in * e, wgrad);
  } else if (cut && layer.mode == LinearMode::column) {
    if (layer.has_dgrad)
      tensor_collective(tape, node.backward_collectives, all_reduce, whole_in * e, wgrad);
  } else if (cut && tape.shape.sequence_parallel) {
    node.forward_workspace += whole_out * e;
    node.backward_workspace += whole_out * element;
    tensor_collective(tape, node.forward_collectives, reduce_scatter, whole_out * e);
    tensor_collective(tape, node.backward_collectives, all_gather, whole_out * e);
  } else if (cut) {
    tensor_collective(tape, node.forward_collectives, all_reduce, whole_out * e);
  }
  tape.add(std::move(node));
}

}  // namespace pipeledger
