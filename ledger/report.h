// What `pipeledger ledger` tells: each rank's state, each stage's microbatch, one layer's tensors,
// and Megatron's own report beside them.
#pragma once

#include <string>
#include <vector>

#include "ledger/conventions.h"
#include "ledger/ledger.h"

namespace pipeledger {

/// One stage and what one microbatch does on it.
struct StageReport {
  Rank rank;
  Stage stage;
  StageLayout layout;
  Bytes activations{};  // what forward leaves for backward
  Bytes logits{};
  OpLedger forward, backward;  // flops only; the steps are dropped
};

struct RankReport {
  Rank rank;
  std::int64_t num_parameters = 0;  // as the ledger counts them
  StateBytes state;                 // as the convention does
};

struct ConventionReport {
  Convention convention = Convention::exact;
  std::vector<RankReport> ranks;
  std::vector<StageReport> stages;  // in stage order
};

struct LedgerReport {
  Scenario scenario;
  std::vector<ConventionReport> conventions;
  std::vector<SavedTensor> embedding, layer, head;
  /// Megatron's estimate of the first stage, whatever convention is shown.
  double megatron_resident_bytes = 0;
  double megatron_sp_selective_bytes = 0;
  double megatron_without_sp_bytes = 0;
  bool megatron_prints_sp_selective = false;
  std::vector<Bytes> exact_resident;  // by rank
};

/// Prices the scenario under each of the conventions. Throws InputError when the layers cannot be
/// split (see stage_layouts).
LedgerReport describe(const Scenario& scenario, const std::vector<Convention>& conventions);

/// The convention called `name` ("train-ledger" or "train_ledger"). Throws InputError for another.
Convention parse_convention(std::string_view name);

/// For people: tables of at most 100 columns, bytes in GiB or exact.
std::string to_text(const LedgerReport& report);

/// For programs: snake_case keys that carry their unit.
std::string to_json(const LedgerReport& report);

/// "bf16", "fp32", "uint8", "int64": what the element is.
std::string_view element_type(const SavedTensor& tensor, Precision precision);
std::string_view name(Cut cut);

}  // namespace pipeledger
