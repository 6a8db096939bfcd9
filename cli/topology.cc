#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "cli/command.h"
#include "spec/scenario.h"
#include "topology/report.h"

namespace pipeledger {
namespace {

struct Options {
  std::filesystem::path scenario;
  std::vector<int> route;  // empty, or two global ranks
  std::string dot;         // empty: none; "-": stdout
  std::string format = "text";
};

void print_topology(const Options& options) {
  const Scenario scenario = load_scenario(options.scenario);
  const Topology topology = build_topology(scenario.cluster);
  TopologyReport report = describe(scenario, topology);
  if (!options.route.empty()) {
    report.route =
        describe_route(topology, scenario.parallel, options.route.at(0), options.route.at(1));
  }
  // On stdout the graph stands alone, so that it can be piped into dot.
  if (options.dot == "-") {
    fmt::print("{}", to_dot(topology));
    return;
  }
  if (!options.dot.empty()) write_file(options.dot, to_dot(topology));
  fmt::print("{}", options.format == "json" ? to_json(report) : to_text(report));
}

}  // namespace

void add_topology_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("topology", "The cluster: its parts and cables, who sits where, routes");
  command->add_option("SCENARIO", options->scenario, "A .yaml, .json or .textproto scenario")
      ->required();
  command->add_option("--route", options->route, "Show the route between two global ranks")
      ->expected(2)
      ->type_name("A B");
  command
      ->add_option("--dot", options->dot, "Write the graph for Graphviz; -: only that, to stdout")
      ->type_name("FILE");
  command->add_option("--format", options->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  command->footer(
      "Example:\n  pipeledger topology examples/llama3-70b-tp8-pp8.yaml --route 0 8 --dot -");
  command->callback([options] { print_topology(*options); });
}

}  // namespace pipeledger
