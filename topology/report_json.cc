// A cluster as JSON (report.h).

#include "base/json_text.h"
#include "topology/report.h"

namespace pipeledger {
namespace {

Json to_json(Range range) { return Json::array({range.first, range.last}); }

Json to_json(Coordinates place) {
  return {{"tensor", place.tensor},
          {"context", place.context},
          {"data", place.data},
          {"pipeline", place.pipeline.value}};
}

Json to_json(const CableKind& kind) {
  return {{"ends", kind.ends},
          {"count", kind.count},
          {"bytes_per_s", kind.bandwidth.value()},
          {"latency_s", kind.latency.value()},
          {"non_blocking", kind.non_blocking}};
}

Json to_json(const NodePlacement& node) {
  Json places = Json::array();
  for (const PlaceBox& box : node.places) {
    places.push_back({{"tensor", to_json(box.tensor)},
                      {"context", to_json(box.context)},
                      {"data", to_json(box.data)},
                      {"pipeline", to_json(box.pipeline)}});
  }
  return {{"node", node.node}, {"ranks", to_json(node.ranks)}, {"places", places}};
}

Json to_json(const RouteReport& route) {
  Json links = Json::array();
  for (const Link& link : route.links) {
    links.push_back({{"name", link.name},
                     {"bytes_per_s", link.bandwidth.value()},
                     {"latency_s", link.latency.value()},
                     {"non_blocking", link.non_blocking}});
  }
  Json json = {{"from_rank", route.from},
               {"from_gpu", route.from_gpu},
               {"from_place", to_json(route.from_place)},
               {"to_rank", route.to},
               {"to_gpu", route.to_gpu},
               {"to_place", to_json(route.to_place)},
               {"links", links},
               {"latency_s", route.latency.value()}};
  // A GPU reaches itself over no link, at no finite rate: the key is left out.
  if (!route.links.empty()) json["bytes_per_s"] = route.bandwidth.value();
  return json;
}

template <class Rows>
Json to_array(const Rows& rows) {
  Json array = Json::array();
  for (const auto& row : rows) array.push_back(to_json(row));
  return array;
}

}  // namespace

std::string to_json(const TopologyReport& report) {
  Json json = {{"scenario", report.name},
               {"cluster_preset", report.preset},
               {"num_nodes", report.num_nodes},
               {"num_gpus", report.num_gpus},
               {"num_nvswitches", report.num_nvswitches},
               {"nvswitch_chips_per_node", report.nvswitch_chips_per_node},
               {"num_nics", report.num_nics},
               {"num_switches", report.num_switches},
               {"cables", to_array(report.cables)},
               {"placement", to_array(report.placement)}};
  if (report.route) json["route"] = to_json(*report.route);
  return json_text(json);
}

}  // namespace pipeledger
