#include "shell/shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/file.h"
#include "base/problem.h"
#include "base/text.h"
#include "shell/interpreter.h"
#include "shell/state.h"

namespace pipeledger {
namespace {

/// #SBATCH lines: what Slurm would set from them.
void read_sbatch(std::string_view text, ShellState& state) {
  struct Option {
    std::string_view names[3];
    std::string_view variables[2];
  };
  constexpr std::array kOptions = {
      Option{{"--nodes", "-N", "--nodes"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"}},
      Option{{"--ntasks-per-node", "--ntasks-per-node", ""}, {"SLURM_NTASKS_PER_NODE", ""}},
      Option{{"--gpus-per-node", "--gpus-per-node", "--gres"},
             {"SLURM_GPUS_ON_NODE", "SLURM_GPUS_PER_NODE"}},
      Option{{"--ntasks", "-n", ""}, {"SLURM_NTASKS", ""}},
  };
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (!line.starts_with("#SBATCH")) continue;
    line = line.substr(0, line.find('#', 1));
    const std::size_t first = line.find('-');
    if (first == std::string_view::npos) continue;
    const std::size_t behind = std::min(line.find_first_of("= \t", first), line.size());
    const std::string_view name = line.substr(first, behind - first);
    // gpu:8, gpu:h100:8 and plain 8 all end in the number.
    const std::size_t value_end = line.find_last_of("0123456789");
    if (value_end == std::string_view::npos || value_end < behind) continue;
    std::size_t value = value_end;
    while (value > behind && std::isdigit(static_cast<unsigned char>(line[value - 1])) != 0)
      --value;
    const Letter at{.line = line_number, .column = static_cast<std::int32_t>(value + 1)};
    for (const Option& option : kOptions) {
      if (std::find(std::begin(option.names), std::end(option.names), name) ==
          std::end(option.names))
        continue;
      for (const std::string_view variable : option.variables) {
        if (variable.empty()) continue;
        state.assign(
            std::string(variable),
            ShellValue{{{"0", letters_of(line.substr(value, value_end + 1 - value), at)}}});
      }
    }
  }
}

}  // namespace

ShellScript run_shell(std::string_view text, const std::string& file,
                      const std::vector<Override>& environment, const std::filesystem::path& folder,
                      const std::vector<std::string>& arguments) {
  if (text.size() > kMaxTextBytes)
    throw InputError({problem_at({.file = file}, "",
                                 fmt::format("holds {} bytes; a script has at most {}",
                                             with_commas(static_cast<std::int64_t>(text.size())),
                                             with_commas(kMaxTextBytes)))});
  ShellState state(file, environment);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Letter at{.file = state.add_file(fmt::format("argument {}", i + 1))};
    state.arguments.push_back(letters_of(arguments[i], at));
  }
  read_sbatch(text, state);
  ShellInterpreter interpreter(state, folder);
  if (!text.empty()) interpreter.text(letters_of_file(text, 0));
  return {std::move(interpreter.commands), state.plain_variables(), std::move(state.notes)};
}

}  // namespace pipeledger
