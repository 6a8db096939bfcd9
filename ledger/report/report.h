// What `pipeledger ledger` tells: each rank's state, each stage's microbatch, one layer's tensors;
// or what another tool would say of the same scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ledger/conventions/conventions.h"
#include "ledger/ledger.h"
#include "ledger/report/overheads.h"
#include "ledger/report/side_by_side.h"

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

/// What a layer of a kind keeps.
struct LayerTensors {
  std::string name;  // of the layer: "dense"
  std::vector<SavedTensor> tensors;
};

/// What two of the sources ask for besides a scenario.
struct LedgerOptions {
  std::optional<double> observed_step_s;  // train-ledger: for MFU and HFU
  Bytes nccl_buffer{};                    // calculator: part of its total
};

struct LedgerReport {
  Scenario scenario;
  LedgerOptions options;
  std::vector<ConventionReport> conventions;
  std::vector<SavedTensor> embedding, head;
  std::vector<LayerTensors> layers;        // a kind of layer each, by name
  std::optional<SideBySide> side_by_side;  // told in the conventions' place
  std::optional<CardBudget> card;          // of the first rank, told behind them
};

/// Prices the scenario under each of the conventions. Throws InputError when the layers cannot be
/// split (see stage_layouts), and where a convention refuses the model.
LedgerReport describe(const Scenario& scenario, const std::vector<Convention>& conventions,
                      const LedgerOptions& options = {});

/// The convention called `name` ("train-ledger" or "train_ledger"). Throws InputError for another.
Convention parse_convention(std::string_view name);
/// All of them, exact first.
std::vector<Convention> all_conventions();

/// For people: tables of at most 100 columns, bytes in GiB or exact. Under megatron and
/// train-ledger the very lines that those print, whatever their width.
std::string to_text(const LedgerReport& report);

/// For programs: snake_case keys that carry their unit.
std::string to_json(const LedgerReport& report);

/// Source 000's sensitivity table, in GB (10^9 bytes) as it prints them.
std::string sensitivity_text(const Scenario& scenario);
std::string sensitivity_json(const Scenario& scenario);

/// The parts of to_text.
std::string korthikanti_text(const Scenario& scenario);
std::string calculator_text(const Scenario& scenario, Bytes nccl_buffer);
std::string to_text(const SideBySide& table);

/// Bytes of a category that an op leaves behind.
Bytes left_behind(const OpLedger& op, Category category);

/// "bf16", "fp32", "uint8", "int64": what the element is.
std::string_view element_type(const SavedTensor& tensor, Precision precision);
std::string_view name(Cut cut);

}  // namespace pipeledger
