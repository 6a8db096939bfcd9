// The command `topology`: the cluster, who sits where, and routes.
#include "topology/topology.h"

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/problem.h"
#include "cli/command.h"
#include "cli/options.h"
#include "topology/report.h"

namespace pipeledger {
namespace {

struct Options {
  ScenarioOptions scenario;
  std::vector<int> route;  // empty, or two global ranks
  std::string dot;         // empty: none; "-": stdout
  std::string format = "text";
};

void print_topology(const Options& options) {
  if (options.dot == "-" && (!options.route.empty() || options.format != "text")) {
    throw InputError({Problem{.field = "--dot",
                              .message = "- writes the graph alone to stdout; leave out --route "
                                         "and --format, or name a file"}});
  }
  const Scenario scenario = load(options.scenario);
  const Topology topology =
      with_positions(scenario, [&] { return build_topology(scenario.cluster); });
  if (options.dot == "-") {
    print_result(to_dot(topology));
    return;
  }
  TopologyReport report = with_positions(scenario, [&] { return describe(scenario, topology); });
  // A wrong --route is the command line's, not the scenario's.
  if (!options.route.empty()) {
    report.route =
        describe_route(topology, scenario.parallel, options.route.at(0), options.route.at(1));
  }
  if (!options.dot.empty()) write_file(options.dot, to_dot(topology));
  print_result(options.format == "json" ? to_json(report) : to_text(report));
}

}  // namespace

void add_topology_command(CLI::App& app) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("topology", "The cluster: parts, cables, who sits where, routes");
  add_scenario_options(*command, options->scenario);
  command->add_option("--route", options->route, "Show the route between two global ranks")
      ->type_size(2)
      ->expected(1)
      ->type_name("A B");
  command
      ->add_option("--dot", options->dot, "Write the graph for Graphviz; -: only that, to stdout")
      ->type_name("FILE")
      ->check(not_empty());
  add_format_option(*command, options->format, {"text", "json"},
                    "Of the tables on stdout: text or json");
  command->footer(
      "Examples:\n"
      "  pipeledger topology examples/llama3-70b-tp8-pp8.yaml --route 0 9\n"
      "  pipeledger topology examples/handmade-cluster.yaml --dot cluster.dot");
  command->callback([options] { print_topology(*options); });
}

}  // namespace pipeledger
