#include "ledger/report/axes.h"

#include <fmt/format.h>

#include <array>

#include "base/json_text.h"
#include "base/text.h"

namespace pipeledger {
namespace {

struct Kind {
  const char* name;
  std::optional<Bytes> RankBytes::*bytes;
};
constexpr std::array kKinds = {
    Kind{"weights", &RankBytes::weights}, Kind{"gradients", &RankBytes::gradients},
    Kind{"optimizer", &RankBytes::optimizer}, Kind{"activations", &RankBytes::activations},
    Kind{"logits", &RankBytes::logits}};

std::optional<double> ratio(std::optional<Bytes> after, std::optional<Bytes> before) {
  if (before.value_or(Bytes{}) == Bytes{}) return std::nullopt;
  return after.value_or(Bytes{}) / *before;
}

std::string ratio_text(std::optional<Bytes> after, std::optional<Bytes> before) {
  const std::optional<double> share = ratio(after, before);
  if (!share) return "-";
  return *share == 1 ? "=" : fmt::format("{:.3f}", *share);
}

std::string row(std::string_view axis, std::string_view change,
                const std::array<std::string, 5>& cells, std::string_view total) {
  return fmt::format("  {:<16} {:<17}{:>9}{:>11}{:>11}{:>13}{:>8}{:>9}\n", axis, change, cells[0],
                     cells[1], cells[2], cells[3], cells[4], total);
}

std::string gib(Bytes bytes) { return fmt::format("{:.2f}", bytes / 1_GiB); }

}  // namespace

std::string axes_text(const RankBytes& before, const std::vector<AxisVariant>& variants) {
  std::array<std::string, 5> cells;
  for (std::size_t i = 0; i < kKinds.size(); ++i) cells[i] = kKinds[i].name;
  std::string text =
      "What an axis cuts: the first rank's bytes, with the last rank's logits, after over "
      "before.\n" +
      row("axis", "change", cells, "total");
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    cells[i] = gib((before.*kKinds[i].bytes).value_or(Bytes{}));
  text += row("before, GiB", "", cells, gib(before.total()));
  std::string refused;
  for (const AxisVariant& variant : variants) {
    if (!variant.bytes) {
      refused += wrap(fmt::format("{}: {}", variant.axis, variant.change), 100, 2);
      continue;
    }
    for (std::size_t i = 0; i < kKinds.size(); ++i)
      cells[i] = ratio_text(*variant.bytes.*kKinds[i].bytes, before.*kKinds[i].bytes);
    text += row(variant.axis, variant.change, cells,
                ratio_text(variant.bytes->total(), before.total()));
  }
  return refused.empty() ? text : text + "Not to be had here:\n" + refused;
}

std::string axes_json(const RankBytes& before, const std::vector<AxisVariant>& variants) {
  const auto bytes = [](const RankBytes& rank) {
    Json json = Json::object();
    for (const Kind& kind : kKinds)
      json[fmt::format("{}_bytes", kind.name)] = (rank.*kind.bytes).value_or(Bytes{}).value();
    return json;
  };
  Json list = Json::array();
  for (const AxisVariant& variant : variants) {
    Json each = {{"axis", variant.axis}, {"change", variant.change}};
    if (variant.bytes) {
      each.update(bytes(*variant.bytes));
      for (const Kind& kind : kKinds) {
        const auto share = ratio(*variant.bytes.*kind.bytes, before.*kind.bytes);
        each[fmt::format("{}_ratio", kind.name)] = share ? Json(*share) : Json(nullptr);
      }
    }
    list.push_back(std::move(each));
  }
  return json_text({{"before", bytes(before)}, {"axes", std::move(list)}});
}

}  // namespace pipeledger
