#include "ledger/state/framework_buffers.h"

#include <algorithm>

#include "ledger/shape.h"

namespace pipeledger {
namespace {

constexpr Bytes kOneKib{1024};
constexpr int kNumGroupedGemmStreams = 4;  // TE common/util/multi_stream.cpp
constexpr int kNumCublasHandles = 2;       // of the threads that run forward and backward

Bytes te_gemm_workspace(const Gpu& gpu) {
  return gpu.compute_capability >= 90 ? 32_MiB + kOneKib : 4_MiB;
}

/// PyTorch's default of CUBLAS_WORKSPACE_CONFIG: 32 MiB on Hopper, :4096:2:16:8 elsewhere (2.13
/// counts Blackwell as Hopper; up to 2.10, which SimuMax ran, it does not).
Bytes cublas_workspace(const Scenario& scenario) {
  if (scenario.sim.cublas_workspace) return *scenario.sim.cublas_workspace;
  const bool is_hopper = scenario.cluster.gpu.compute_capability == 90;
  return is_hopper ? 32_MiB : 8320_KiB;
}

/// Megatron's global memory buffer "mpu", as long as the longest that asked for it: gathered inputs
/// of Megatron's own linear layers, and its unfused attention's addend, of the scores' size. For
/// deferred weight gradients inputs are gathered into "mpu_0" and "mpu_1" in turn.
Bytes global_memory_buffer(const Scenario& scenario, bool has_layers, bool has_head) {
  const Train& train = scenario.train;
  const Shape shape = shape_of(scenario);
  const bool has_local_layers = has_layers && train.transformer_impl == TransformerImpl::local;
  const std::int64_t gathered = shape.sequence_parallel ? shape.tokens() * shape.h : 0;
  std::int64_t numel = has_head || has_local_layers ? gathered : 0;
  if (has_local_layers && train.attention_backend == AttentionBackend::unfused) {
    numel = std::max(numel, shape.b * shape.local_heads * shape.s * shape.whole_s);
  }
  if (has_head) numel += std::min<std::int64_t>(num_deferred_microbatches(train), 2) * gathered;
  return Bytes(numel * shape.element);
}

/// Chunks that get their input as a message.
std::int64_t num_received(const Scenario& scenario, const std::vector<StageLayout>& stages) {
  if (scenario.parallel.pipeline_model_parallel_size == 1) return 0;
  return std::count_if(stages.begin(), stages.end(),
                       [](const StageLayout& s) { return !s.embedding; });
}

/// A local variable of the schedule holds the gradient of the last backward's input until the next
/// backward has made another.
Bytes last_input_gradient(const Scenario& scenario, const std::vector<StageLayout>& stages) {
  return std::min<std::int64_t>(num_received(scenario, stages), 1) * p2p_message_bytes(scenario);
}

Bytes rotary_table(const Scenario& scenario) {
  const Model& model = scenario.model;
  if (model.learned_position_embeddings || model.no_position_embeddings) return Bytes{};
  const std::int64_t width = model.mla ? model.mla->qk_pos_emb_head_dim : model.kv_channels;
  return Bytes(scenario.train.seq_length / scenario.parallel.context_parallel_size * width * 4);
}

}  // namespace

std::vector<StageLayout> stages_of(const Scenario& scenario, Rank rank) {
  const std::vector<StageLayout> all = stage_layouts(scenario);
  const auto p = static_cast<std::size_t>(scenario.parallel.pipeline_model_parallel_size);
  std::vector<StageLayout> stages;
  for (std::size_t s = rank.index(); s < all.size(); s += p) stages.push_back(all[s]);
  return stages;
}

std::vector<PersistentBuffer> persistent_buffers(const Scenario& scenario,
                                                 const std::vector<StageLayout>& stages) {
  const Train& train = scenario.train;
  const auto any = [&](auto holds) { return std::any_of(stages.begin(), stages.end(), holds); };
  const bool has_layers =
      any([](const StageLayout& s) { return s.num_layers + s.num_mtp_layers > 0; });
  const bool has_head = any([](const StageLayout& s) { return s.head; });
  const bool is_te = train.transformer_impl == TransformerImpl::transformer_engine;
  std::vector<PersistentBuffer> buffers;
  using Born = PersistentBuffer::Born;
  const auto add = [&](std::string_view name, Bytes bytes, std::string_view source,
                       Born born = Born::first_forward) {
    if (bytes != Bytes{}) buffers.push_back({name, bytes, source, born});
  };
  add("stand-ins of weights' gradients", dummy_gradient_bytes(scenario, stages),
      "TE get_dummy_wgrad", Born::elsewhere);
  // The router's GEMM is Transformer Engine's even among local layers.
  if (has_layers && (is_te || scenario.model.moe)) {
    const bool grouped = is_te && scenario.model.moe && train.moe_grouped_gemm;
    add("Transformer Engine GEMM workspace",
        te_gemm_workspace(scenario.cluster.gpu) * (grouped ? 1 + kNumGroupedGemmStreams : 1),
        "TE get_cublas_workspace");
  }
  if (has_head || (!is_te && has_layers)) {
    add("cuBLAS workspaces of PyTorch", cublas_workspace(scenario) * kNumCublasHandles,
        "PyTorch CublasHandlePool.cpp", Born::both_directions);
  }
  add("global memory buffer", global_memory_buffer(scenario, has_layers, has_head),
      "Megatron-LM get_global_memory_buffer, mpu");
  add("gradient of the last stage input", last_input_gradient(scenario, stages),
      "Megatron-LM schedules.py, input_tensor_grad", Born::elsewhere);
  if (has_layers) add("rotary table", rotary_table(scenario), "rotary_pos_embedding.py");
  return buffers;
}

Bytes left_between_steps(const Scenario& scenario, const std::vector<StageLayout>& stages) {
  const std::int64_t num_messages = 2 * num_received(scenario, stages);
  return std::max<std::int64_t>(num_messages - 1, 0) * p2p_message_bytes(scenario);
}

Bytes total(const std::vector<PersistentBuffer>& buffers) {
  Bytes sum{};
  for (const PersistentBuffer& buffer : buffers) sum += buffer.bytes;
  return sum;
}

}  // namespace pipeledger
