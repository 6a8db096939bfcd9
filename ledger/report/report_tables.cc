// The tables of other sources, and all of them beside each other.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/table.h"
#include "base/text.h"
#include "ledger/conventions/calculator.h"
#include "ledger/conventions/korthikanti.h"
#include "ledger/conventions/source_000.h"
#include "ledger/report/report.h"

namespace pipeledger {
namespace {

constexpr std::size_t kWidth = 100;
constexpr double kGiB = (1_GiB).value();

std::string gib(double bytes) { return fmt::format("{:.3f}", bytes / kGiB); }
std::string gib(std::int64_t bytes) { return gib(static_cast<double>(bytes)); }

std::string modules_table(const CalculatorRank& counted, int rank) {
  TextTable table({left("module", 16), right("elements", 15, 1), right("weight", 9),
                   right("fp8 cache", 9), right("gradient", 9), right("master", 9),
                   right("optimizer", 9), right("total", 9)});
  for (const CalculatorModule& module : counted.modules) {
    if (module.num_elements == 0) continue;
    table.row(module.name, with_commas(static_cast<std::int64_t>(module.num_elements)),
              gib(module.weight), gib(module.fp8_cache), gib(module.grad),
              gib(module.sharded_param), gib(module.optimizer_state), gib(module.total()));
  }
  return fmt::format("Modules of rank {}, GiB:\n", rank) + table.text();
}

std::string layer_parts(std::string_view title, const CalculatorLayer& layer) {
  std::string parts;
  for (const CalculatorActivation& part : layer.parts)
    parts += fmt::format("{} {}; ", part.name, with_commas(part.bytes));
  parts += fmt::format("kept: {}", with_commas(layer.bytes));
  return fmt::format("{}, bytes of one microbatch:\n", title) + wrap(parts, kWidth, 2);
}

/// The rows of one rank: "weights" and so on, a cell a convention.
void add_rank(const SideBySide& side, RankBytes SideBySide::Column::*rank, TextTable& table) {
  struct Row {
    const char* name;
    std::optional<Bytes> RankBytes::*bytes;
  };
  constexpr std::array kRows = {
      Row{"weights", &RankBytes::weights}, Row{"gradients", &RankBytes::gradients},
      Row{"optimizer", &RankBytes::optimizer}, Row{"activations", &RankBytes::activations},
      Row{"logits", &RankBytes::logits}};
  for (const Row& row : kRows) {
    std::vector<std::string> cells = {fmt::format("  {}", row.name)};
    for (const SideBySide::Column& column : side.columns) {
      const std::optional<Bytes>& bytes = (column.*rank).*row.bytes;
      cells.push_back(bytes ? to_gib(*bytes) : "-");
    }
    table.add(cells);
  }
  std::vector<std::string> totals = {"  total"};
  for (const SideBySide::Column& column : side.columns)
    totals.push_back(to_gib((column.*rank).total()));
  table.add(totals);
}

/// Ranks that count alike share a line: "1-3".
std::string in_flight_rows(const std::vector<InFlight>& ranks) {
  const auto number = [](double count) {
    std::string text = fmt::format("{:.3f}", count);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
    return text;
  };
  TextTable table(
      {right("rank", 7), right("megatron", 10), right("calculator", 10), right("schedule", 10)});
  const auto alike = [](const InFlight& a, const InFlight& b) {
    return a.megatron == b.megatron && a.calculator == b.calculator && a.schedule == b.schedule;
  };
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t end = first + 1;
    while (end < ranks.size() && alike(ranks[end], ranks[first])) ++end;
    const InFlight& each = ranks[first];
    table.row(end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1),
              each.megatron ? number(*each.megatron) : "-", number(each.calculator),
              number(each.schedule));
    first = end;
  }
  return table.text();
}

}  // namespace

std::string korthikanti_text(const Scenario& scenario) {
  const auto rows = korthikanti_table_2(scenario);
  const std::size_t chosen = korthikanti_row(scenario);
  TextTable table({left("  technique", 31), left("bytes of a layer", 31), right("here", 15),
                   right("first stage", 15)});
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.row(fmt::format("{} {}", i == chosen ? '*' : ' ', rows[i].technique), rows[i].formula,
              with_commas(static_cast<std::int64_t>(rows[i].layer)),
              to_gib(Bytes(static_cast<std::int64_t>(rows[i].first_stage))));
  }
  return "Table 2 with these sizes; * is what the flags name (flash keeps no scores):\n" +
         table.text() +
         wrap(
             "first stage: L layers (equations 5 and 6), times 1 + (p-1)/(p v) when "
             "interleaved; the embedding's masks and the head are not in it",
             kWidth, 2);
}

std::string calculator_text(const Scenario& scenario, Bytes nccl_buffer) {
  const CalculatorInput input = calculator_input(scenario);
  std::string text =
      fmt::format("  VPP {}: every rank's activations are multiplied by it\n", input.vpp());
  TextTable table({right("rank", 4), right("E", 3), right("dense", 5, 1), right("MoE", 4, 1),
                   right("MTP", 3, 1), right("L", 3, 1), right("static", 10),
                   right("activations", 12), right("output layer", 12), right("NCCL", 6),
                   right("total GiB", 10)});
  for (int rank = 0; rank < input.pp; ++rank) {
    const CalculatorRank counted = calculator_rank(input, Rank{rank});
    const double total = counted.static_bytes() + static_cast<double>(counted.activations) +
                         static_cast<double>(counted.output_layer + nccl_buffer.value());
    table.row(rank, counted.num_embeddings, counted.num_dense, counted.num_moe, counted.num_mtp,
              counted.num_output_layers, gib(counted.static_bytes()), gib(counted.activations),
              gib(counted.output_layer), gib(nccl_buffer.value()), gib(total));
  }
  text += table.text();
  text += modules_table(calculator_rank(input, Rank{0}), 0);
  if (input.pp > 1) text += modules_table(calculator_rank(input, Rank{input.pp - 1}), input.pp - 1);
  if (input.num_experts > 0) text += layer_parts("A MoE layer", calculator_moe_layer(input));
  if (input.num_dense_layers > 0)
    text += layer_parts("A dense layer", calculator_dense_layer(input));
  return text;
}

std::string to_text(const SideBySide& side) {
  std::vector<Column> headings = {left("", 15, 0)};
  for (const SideBySide::Column& column : side.columns)
    headings.push_back(right(std::string(name(column.convention)), 14));
  TextTable table(std::move(headings));
  table.line("first rank");
  add_rank(side, &SideBySide::Column::first, table);
  if (side.in_flight.size() > 1) {
    table.line("last rank");
    add_rank(side, &SideBySide::Column::last, table);
  }
  std::string text = table.text();
  text += "\n";
  for (const SideBySide::Column& column : side.columns) {
    text += wrap(fmt::format("{} counts {}; leaves out {}.", name(column.convention),
                             counts(column.convention), leaves_out(column.convention)),
                 kWidth, 2);
  }
  return text + "\nMicrobatches in flight at a rank's peak, each of all its chunks:\n" +
         in_flight_rows(side.in_flight) +
         wrap(
             "megatron: p (1 + (p-1)/(p v)) when interleaved, else min(p, m), first stage only. "
             "calculator: v. schedule: the most (microbatch, chunk) pairs it holds, over v.",
             kWidth, 2);
}

std::string sensitivity_text(const Scenario& scenario) {
  const auto gb = [](double bytes) { return fmt::format("{:.2f}", bytes / 1e9); };
  std::string text = fmt::format(
      "Source 000, table 6.5: the first stage, GB of 10^9 bytes\n  {:<34}  {:>9}  {:>11}  {:>9}  "
      "{}\n",
      "change", "resident", "activations", "total", "how");
  for (const SensitivityRow& row : sensitivity(scenario)) {
    text += fmt::format("  {:<32}  {:>8}  {:>11}  {:>7}  {}\n", row.change, gb(row.resident),
                        gb(row.activations), gb(row.total()), row.how);
  }
  return text + wrap(fmt::format("The source's own row \"without selective recompute\" takes 34 "
                                 "where its formula has 18 + 4f/h: {} of activations.",
                                 gb(sensitivity_with_34(scenario))),
                     kWidth, 2);
}

}  // namespace pipeledger
