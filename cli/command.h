// One file a command: parse, call, print; no arithmetic.
#pragma once

#include <CLI/CLI.hpp>

namespace pipeledger {

/// Each adds its subcommand; the callback does the work and throws InputError or RunError.
void add_run_command(CLI::App& app);
void add_ledger_command(CLI::App& app);
void add_schedule_command(CLI::App& app);
void add_topology_command(CLI::App& app);
void add_sweep_command(CLI::App& app);
void add_advise_command(CLI::App& app);
void add_view_command(CLI::App& app);
void add_convert_command(CLI::App& app);
void add_validate_command(CLI::App& app);
void add_schema_command(CLI::App& app);
void add_documents_command(CLI::App& app);

}  // namespace pipeledger
