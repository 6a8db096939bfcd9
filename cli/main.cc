// The program: finds the command, prints errors, answers Ctrl-C, gives the exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/internal_error.h"
#include "base/problem.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/options.h"

namespace pipeledger {
namespace {

constexpr int kDone = 0;
constexpr int kFailed = 1;
constexpr int kWrongInput = 2;

void add_commands(CLI::App& app) {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", "pipeledger " PIPELEDGER_VERSION, "Show the version");
  app.require_subcommand(1);
  add_run_command(app);
  add_ledger_command(app);
  add_schedule_command(app);
  add_topology_command(app);
  add_sweep_command(app);
  add_advise_command(app);
  add_view_command(app);
  add_convert_command(app);
  add_validate_command(app);
  add_schema_command(app);
  add_documents_command(app);
  app.footer(
      "Examples:\n"
      "  pipeledger run examples/llama3-70b-tp8-pp8.yaml\n"
      "  pipeledger run examples/llama3-70b-tp8-pp8.yaml -o out --set sim.runtime=ideal\n"
      "Each command has a --help with its options.");
}

pid_t main_process = 0;
const char* interrupted_line = "pipeledger: interrupted\n";

/// Says that the program was interrupted, and dies of the signal, so that a shell's script ends
/// too. Nothing is left half-written: see HeldSignals. Calls only what a signal handler may call; a
/// sweep's processes say nothing.
extern "C" void die_of(int signal) {
  if (::getpid() == main_process) {
    [[maybe_unused]] const ssize_t written =
        ::write(STDERR_FILENO, interrupted_line, std::strlen(interrupted_line));
  }
  ::raise(signal);  // the handler is gone
}

/// What whoever started the program ignores stays ignored.
void watch_interrupts() {
  main_process = ::getpid();
  // On a terminal there may be a progress line.
  if (::isatty(STDERR_FILENO) != 0) interrupted_line = "\r\x1b[Kpipeledger: interrupted\n";
  struct sigaction action {};
  action.sa_handler = die_of;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before {};
    ::sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::sigaction(signal, &action, nullptr);
  }
}

int parse_and_do(CLI::App& app, int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "{}", app.help());
    return kWrongInput;
  }
  const std::string first = argv[1];
  const bool asks = first == "-h" || first == "--help" || first == "--version";
  if (!asks && !is_command(app, first)) {
    fmt::print(stderr, "{}\n", unknown_command(app, first));
    return kWrongInput;
  }
  try {
    // CLI11 takes the words from behind.
    std::vector<std::string> words = with_megatron_flags(argc, argv);
    std::reverse(words.begin(), words.end());
    app.parse(std::move(words));
  } catch (const CLI::Success& asked) {
    std::ostringstream text;
    app.exit(asked, text);
    print_result(text.str());
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "{}\n", complaint(app, error));
    return kWrongInput;
  }
  return kDone;
}

}  // namespace
}  // namespace pipeledger

int main(int argc, char** argv) {
  using namespace pipeledger;
  // A file over the shell's limit is then a write that fails, and what it left is removed.
  std::signal(SIGXFSZ, SIG_IGN);
  watch_interrupts();
  CLI::App app("Simulates one training step of a large model: memory, time and communication.",
               "pipeledger");
  try {
    add_commands(app);
    return parse_and_do(app, argc, argv);
  } catch (const InputError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return kWrongInput;
  } catch (const InternalError& error) {
    fmt::print(stderr, "pipeledger: {}\n", error.what());
    std::abort();
  } catch (const std::exception& error) {
    fmt::print(stderr, "pipeledger: {}\n", error.what());
    return kFailed;
  }
}
