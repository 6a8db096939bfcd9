// Numbers that papers and other tools publish, out of our orders and our player.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "schedules/figures.h"
#include "schedules/schedule.h"

namespace pipeledger {
namespace {

using nlohmann::json;

/// A row of Zero Bubble (Qi et al. 2023), Table 5, with its times of Table 9 and shapes of Table 3:
/// shared/reference/schedules/{published,closed_forms}.json.
struct Row {
  json data;

  int number(const char* key) const { return data[key]; }
  std::string published(const char* schedule) const {
    return fmt::format("{:.4f}", data["bubble"][schedule].get<double>());
  }
  /// Microseconds. A chunk's op is 1/v of its stage's: as v times as long a hop.
  OpTimes times(int chunks = 1) const {
    return {.forward = number("F_us"),
            .backward = number("I_us") + number("W_us"),
            .input_gradient = number("I_us"),
            .weight_gradient = number("W_us"),
            .hop = chunks * number("hop_us")};
  }
  /// What the automatic schedules plan with: a layer's activations of Table 1.
  ScheduleCosts costs() const {
    const double hidden = number("hidden"), heads = number("heads"), seq = number("seq");
    return {.forward = data["F_us"],
            .input_gradient = data["I_us"],
            .weight_gradient = data["W_us"],
            .hop = data["hop_us"],
            .activation = 34 * hidden + 5 * heads * seq,
            .weight_activation = 32 * hidden};
  }

  std::string simulated(std::string_view name, int chunks = 1) const {
    const ScheduleEntry& entry = find_schedule(name);
    ScheduleShape shape{number("p"), chunks, number("m")};
    if (entry.traits.plans_from_costs) shape.costs = costs();
    const Schedule schedule = make_schedule(name, shape);
    const StepFigures figures = step_figures(schedule, play(schedule, times(chunks)));
    return fmt::format("{:.4f}", figures.span_bubble_fraction());
  }
};

std::vector<Row> rows() {
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/tests/data/schedules/zero_bubble_table5.jsonl");
  std::vector<Row> found;
  for (std::string line; std::getline(file, line);) found.push_back({json::parse(line)});
  return found;
}

TEST(ZeroBubbleTable5, SixtyOfItsBubbleRatesAreThoseOfOurPlayer) {
  int num_rates = 0;
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.data.dump());
    for (const auto& [theirs, ours] :
         {std::pair("1F1B", "1f1b"), std::pair("ZB-H1", "interleaved-zb"),
          std::pair("ZB-H2", "zb-h2"), std::pair("ZB-1p", "zb-1p"), std::pair("ZB-2p", "zb-2p")}) {
      EXPECT_EQ(row.simulated(ours), row.published(theirs)) << theirs;
      ++num_rates;
    }
  }
  EXPECT_EQ(num_rates, 60);
}

/// The rate of Megatron's interleaved order with so many hops in the step.
std::string interleaved_rate(const Row& row, int num_hops) {
  const double p = row.number("p"), m = row.number("m"), v = row.number("v");
  const double stage = row.number("F_us") + row.number("I_us") + row.number("W_us");
  const double extra = (p - 1) * stage / v + num_hops * row.number("hop_us");
  return fmt::format("{:.4f}", extra / (m * stage + extra));
}

// The published rates have p hops less than Megatron's order takes when it is played.
TEST(ZeroBubbleTable5, TheTwelveRatesOfInterleaved1F1BCountPHopsLessThanItsOrderTakes) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.data.dump());
    const int p = row.number("p"), v = row.number("v");
    EXPECT_EQ(interleaved_rate(row, 2 * p * v - 2 - p), row.published("1F1B-I"));
    EXPECT_EQ(interleaved_rate(row, 2 * p * v - 2), row.simulated("interleaved", v));
    EXPECT_GT(row.simulated("interleaved", v), row.published("1F1B-I"));
  }
}

/// A row of the table in docs/schedules.md: makespan and longest span, in units of a microbatch's
/// forward on a rank; the three bubbles; peaks by rank, in microbatches.
std::string unit_row(std::string_view name, int v) {
  const Schedule schedule = make_schedule(name, {8, v, 32});
  const StepFigures figures = step_figures(schedule, play(schedule, kUnitTimes));
  const double unit = num_pieces(schedule);
  std::string peaks;
  std::string until_input;
  for (const std::vector<Op>& ops : schedule.ops) {
    const PeakCounts peak = peak_counts(ops);
    peaks += fmt::format(" {}", peak.in_flight / unit);
    until_input += fmt::format(" {}", peak.until_input_gradient / unit);
  }
  return fmt::format("| `{}` | {} | {} | {} | {:.4f} | {:.4f} | {:.4f} |{} |{} |\n", name, v,
                     static_cast<double>(figures.makespan) / unit,
                     static_cast<double>(figures.longest_span) / unit, figures.bubble_fraction(),
                     figures.bubble_over_ideal(), figures.span_bubble_fraction(), peaks,
                     peaks == until_input ? " the same" : until_input);
}

// F = I = W = 1 on 8 ranks, 32 microbatches (96 of work): the numbers on which Primus, SAPP, PP-Viz
// and the zero-bubble repository agree; shared/reference/peers.md 2.3.
TEST(UnitTimes, TheTableOfEightRanksAnd32Microbatches) {
  EXPECT_EQ(unit_row("1f1b", 1),
            "| `1f1b` | 1 | 117 | 117 | 0.1795 | 0.2188 | 0.1795 | 8 7 6 5 4 3 2 1 | the same |\n");
  EXPECT_EQ(unit_row("interleaved", 2),
            "| `interleaved` | 2 | 106.5 | 106.5 | 0.0986 | 0.1094 | 0.0986 "
            "| 11.5 10.5 9.5 8.5 7.5 6.5 5.5 4.5 | the same |\n");
  EXPECT_EQ(unit_row("interleaved", 4),
            "| `interleaved` | 4 | 101.25 | 101.25 | 0.0519 | 0.0547 | 0.0519 "
            "| 9.75 9.25 8.75 8.25 7.75 7.25 6.75 6.25 | the same |\n");
  EXPECT_EQ(unit_row("low-memory-interleaved", 2),
            "| `low-memory-interleaved` | 2 | 106.5 | 106.5 | 0.0986 | 0.1094 | 0.0986 "
            "| 8 7.5 7 6.5 6 5.5 5 4.5 | the same |\n");
  EXPECT_EQ(unit_row("zb-1p", 1),
            "| `zb-1p` | 1 | 103 | 103 | 0.0680 | 0.0729 | 0.0680 | 8 8 8 8 8 8 8 8 "
            "| 8 7 6 5 4 3 2 1 |\n");
  EXPECT_EQ(unit_row("zb-2p", 1),
            "| `zb-2p` | 1 | 103 | 96 | 0.0680 | 0.0729 | 0.0000 | 16 16 16 16 16 16 16 16 "
            "| 15 13 11 9 7 5 3 1 |\n");
  EXPECT_EQ(unit_row("zbv", 2),
            "| `zbv` | 2 | 99.5 | 96 | 0.0352 | 0.0365 | 0.0000 | 8 8 8 8 8 8 8 8 | the same |\n");
  EXPECT_EQ(unit_row("v-half", 2),
            "| `v-half` | 2 | 104.5 | 104.5 | 0.0813 | 0.0885 | 0.0813 | 5 5 5 5 5 5 5 5 "
            "| the same |\n");
  // Primus' greedy pass ends at 109 with 4 on every rank, the zero-bubble repository's here.
  EXPECT_EQ(unit_row("v-min", 2),
            "| `v-min` | 2 | 109.5 | 109.5 | 0.1233 | 0.1406 | 0.1233 | 3.5 4 4 4 4 4 4 4 "
            "| 3.5 3.5 4 4 4 4 4 4 |\n");
}

TEST(UnitTimes, TheTableInTheDocsIsWhatWePlay) {
  std::string table =
      "| schedule | v | makespan | span | of makespan | of work | of span | peak, rank 0 to 7 "
      "| until I |\n|---|--:|--:|--:|--:|--:|--:|---|---|\n";
  for (const auto& [name, v] :
       std::initializer_list<std::pair<std::string_view, int>>{{"gpipe", 1},
                                                               {"1f1b", 1},
                                                               {"eager-1f1b", 1},
                                                               {"interleaved", 2},
                                                               {"interleaved", 4},
                                                               {"low-memory-interleaved", 2},
                                                               {"zb-h1", 1},
                                                               {"zb-h2", 1},
                                                               {"interleaved-zb", 1},
                                                               {"interleaved-zb", 2},
                                                               {"zb-1p", 1},
                                                               {"zb-2p", 1},
                                                               {"zbv", 2},
                                                               {"zbv-auto", 2},
                                                               {"v-1f1b", 2},
                                                               {"v-half", 2},
                                                               {"v-min", 2},
                                                               {"dualpipev", 2},
                                                               {"hanayo", 2}}) {
    table += unit_row(name, v);
  }
  std::ifstream file(PIPELEDGER_SOURCE_DIR "/docs/schedules.md");
  const std::string docs{std::istreambuf_iterator<char>(file), {}};
  EXPECT_THAT(docs, testing::HasSubstr(table));
}

}  // namespace
}  // namespace pipeledger
