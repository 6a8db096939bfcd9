#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>

#include "base/problem.h"
#include "cli/command.h"

int main(int argc, char** argv) {
  using namespace pipeledger;
  CLI::App app("Simulates one training step of a large model: memory, time and communication.",
               "pipeledger");
  app.require_subcommand(1);
  app.set_version_flag("--version", "pipeledger 0.1.0");
  add_run_command(app);
  add_ledger_command(app);
  add_topology_command(app);
  add_schedule_command(app);
  add_view_command(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool wrong = error.get_exit_code() != 0;
    app.exit(error);
    return wrong ? 2 : 0;
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "pipeledger: {}\n", error.what());
    return 1;
  }
  return 0;
}
