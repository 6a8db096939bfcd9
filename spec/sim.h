// How a step is simulated.
#pragma once

#include <optional>
#include <string>

#include "base/units.h"
#include "spec/alloc_conf.h"

namespace pipeledger {

/// Who waits for whom. ideal: a send costs the rank nothing and arrives hop_latency later, so the
/// closed forms hold. megatron: Megatron-LM's blocking and overlapped exchanges. torch: PyTorch's
/// receives that are posted ahead and sends that nobody waits for.
enum class Runtime { ideal, megatron, torch };
/// Who keeps the time. simgrid: flows share links. fast: every message has its links to itself.
enum class EngineKind { simgrid, fast };
/// Whose formula prices the states of the run: our tensor ledger, or a source's own estimate.
enum class Convention { exact, megatron, korthikanti, train_ledger, calculator };
/// Releases of Megatron Core at which its memory estimate changed; each stands for those up to the
/// next.
enum class MegatronRelease { core_0_12, core_0_15, core_0_16, core_0_17, core_0_18, core_0_19 };

/// A user's own measurement of one layer kind; replaces the roofline.
struct LayerTimes {
  Seconds forward{};
  Seconds backward{};
  Seconds weight_backward{};  // of backward, the weight gradients' share

  bool operator==(const LayerTimes&) const = default;
};

struct Sim {
  std::string schedule;       // a name of the registry; `auto` is resolved; empty: from the file
  std::string schedule_file;  // path of a written schedule; empty: none
  int num_seq_splits = 1;     // slices of a microbatch's sequence
  Runtime runtime = Runtime::megatron;
  EngineKind engine = EngineKind::simgrid;
  Convention convention = Convention::exact;
  MegatronRelease megatron_release = MegatronRelease::core_0_19;  // whose estimate
  bool overlap_p2p_communication = false;  // Megatron: on with VPP, never without
  bool overlap_p2p_communication_warmup_flush = false;
  bool deallocate_pipeline_outputs = true;
  Seconds hop_latency{};      // runtime ideal: what a message takes
  bool fold_replicas = true;  // play one of the data-parallel replicas for all
  std::optional<LayerTimes> embedding_times, layer_times, head_times;
  std::optional<Seconds> optimizer_time;
  std::optional<Bytes> cublas_workspace;  // of one handle; nullopt: PyTorch's default for the GPU
  AllocConf alloc_conf;                   // of PyTorch's caching allocator

  bool operator==(const Sim&) const = default;
};

}  // namespace pipeledger
