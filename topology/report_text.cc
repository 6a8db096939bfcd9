// A cluster as text (report.h).
#include <fmt/format.h>

#include <algorithm>

#include "base/table.h"
#include "topology/report.h"

namespace pipeledger {
namespace {

std::string gb_per_s(BytesPerSecond rate) { return fmt::format("{:g}", rate.value() / 1e9); }
std::string us(Seconds time) { return fmt::format("{:g}", time.value() * 1e6); }

std::string counted(int count, std::string_view singular) {
  return fmt::format("{} {}{}", count, singular,
                     count == 1                 ? ""
                     : singular.ends_with("ch") ? "es"
                                                : "s");
}

std::string to_text(Range range) {
  return range.first == range.last ? fmt::format("{}", range.first)
                                   : fmt::format("{}-{}", range.first, range.last);
}

/// Context ranks are named where there are several.
std::string to_text(const PlaceBox& box, const Parallel& parallel) {
  return fmt::format("tp {}{}  dp {}  pp {}", to_text(box.tensor),
                     parallel.context_parallel_size > 1 ? "  cp " + to_text(box.context) : "",
                     to_text(box.data), to_text(box.pipeline));
}

std::string to_text(Coordinates place, const Parallel& parallel) {
  return fmt::format("tp {}{} dp {} pp {}", place.tensor,
                     parallel.context_parallel_size > 1 ? fmt::format(" cp {}", place.context) : "",
                     place.data, place.pipeline.value);
}

std::string parts_text(const TopologyReport& report) {
  std::string text =
      fmt::format("{}: {}, {}, {}, {}, {}\n", report.preset.empty() ? "cluster" : report.preset,
                  counted(report.num_nodes, "node"), counted(report.num_gpus, "GPU"),
                  counted(report.num_nvswitches, "NVSwitch"), counted(report.num_nics, "NIC"),
                  counted(report.num_switches, "switch"));
  if (report.nvswitch_chips_per_node > 1 && report.num_nvswitches > 0) {
    text += fmt::format(
        "an NVSwitch stands for the {} chips of a node, over which NVLink stripes every transfer\n",
        report.nvswitch_chips_per_node);
  }
  return text;
}

std::string cables_text(const std::vector<CableKind>& cables) {
  TextTable table({left("cables", 18, 0), right("count", 8, 1), right("GB/s each way", 14, 1),
                   right("latency us", 12, 1)});
  for (const CableKind& kind : cables) {
    table.row(kind.ends, kind.count, gb_per_s(kind.bandwidth), us(kind.latency),
              kind.non_blocking ? "  non-blocking" : "");
  }
  return '\n' + table.text();
}

std::string placement_text(const TopologyReport& report) {
  const Parallel& parallel = report.parallel;
  std::string text =
      fmt::format("\nplacement of {} ranks: TP {} fastest,{} then DP {}, then PP {}\n",
                  parallel.world_size(), parallel.tensor_model_parallel_size,
                  parallel.context_parallel_size > 1
                      ? fmt::format(" then CP {},", parallel.context_parallel_size)
                      : "",
                  parallel.data_parallel_size, parallel.pipeline_model_parallel_size);
  std::size_t width = 0;
  for (const NodePlacement& node : report.placement) {
    width = std::max(width, to_text(node.ranks).size());
  }
  for (const NodePlacement& node : report.placement) {
    text += fmt::format("node {:<4} ranks {:<{}}  ", node.node, to_text(node.ranks), width);
    std::string separator;
    for (const PlaceBox& box : node.places) {
      text += separator + to_text(box, parallel);
      separator = " | ";
    }
    text += '\n';
  }
  if (const int idle = report.num_gpus - parallel.world_size(); idle > 0) {
    text += counted(idle, "GPU") + " without a rank\n";
  }
  return text;
}

std::string route_text(const RouteReport& route, const Parallel& parallel) {
  std::string text = fmt::format("\nroute from rank {} ({}, {}) to rank {} ({}, {})\n", route.from,
                                 route.from_gpu, to_text(route.from_place, parallel), route.to,
                                 route.to_gpu, to_text(route.to_place, parallel));
  if (route.links.empty()) return text + "the same GPU: no link\n";
  std::size_t width = 0;
  for (const Link& link : route.links) width = std::max(width, link.name.size());
  const auto row = [&](std::string_view name, BytesPerSecond rate, Seconds latency) {
    return fmt::format("  {:<{}} {:>10} GB/s {:>8} us", name, width, gb_per_s(rate), us(latency));
  };
  for (const Link& link : route.links) {
    text += row(link.name, link.bandwidth, link.latency) +
            (link.non_blocking ? "  non-blocking\n" : "\n");
  }
  return text +
         row(counted(static_cast<int>(route.links.size()), "link"), route.bandwidth,
             route.latency) +
         "\n";
}

}  // namespace

std::string to_text(const TopologyReport& report) {
  return parts_text(report) + cables_text(report.cables) + placement_text(report) +
         (report.route ? route_text(*report.route, report.parallel) : "");
}

}  // namespace pipeledger
