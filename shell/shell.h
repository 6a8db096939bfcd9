// The part of bash that launch scripts are written in: a script is read to the command it would
// run, every word with the place where it was written.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "base/problem.h"

namespace pipeledger {

/// Why a piece of a word is not known, and the variable that would tell it.
struct ShellUnknown {
  std::string name;  // of the variable; empty: there is none
  std::string why;   // "DATA_PATH, which nothing sets"

  /// "depends on DATA_PATH, which nothing sets; add --set-env DATA_PATH=value"
  std::string sentence() const;
};

struct ShellWord {
  std::string text;  // an unknown piece stands there as $NAME or $(command)
  Position position;
  std::optional<ShellUnknown> unknown;
  /// Nothing but unquoted unknown pieces: bash drops such a word when they are empty.
  bool may_vanish = false;
};

struct ShellCommand {
  std::vector<ShellWord> words;
  /// The words before it when it was a word itself: srun ... bash -c "...".
  std::vector<ShellWord> launcher;
};

struct ShellScript {
  std::vector<ShellCommand> commands;  // in the order they would run
  std::vector<ShellWord> variables;    // text NAME=value, of plain ones with known values
  std::vector<std::string> notes;      // what was decided or passed over: "train.sh:12: ..."
};

/// Runs `text` as bash would, as far as its words decide: assignments, arrays, +=, ${...} with
/// operators, $((...)), $(...) of what is worked out without a run (programs.h), {1..8}, if,
/// case, for, while, functions, [ ], [[ ]], (( )), eval, bash -c and heredocs. Nothing is executed:
/// other commands are written down, and what only they could tell is unknown. An if that depends
/// on an unknown takes no branch, with a note; an exit 1 because a variable is not set is passed
/// over, with another.
///
/// `environment` stands before, and wins against, what the script assigns; `arguments` are its
/// $1, $2... #SBATCH lines set the
/// variables that Slurm would. Files that it sources are read from `folder`, when they are there;
/// no others, and none when it is empty. Throws InputError where bash would see no command: an open
/// quote, an if without fi, a loop without end.
ShellScript run_shell(std::string_view text, const std::string& file,
                      const std::vector<Override>& environment,
                      const std::filesystem::path& folder = {},
                      const std::vector<std::string>& arguments = {});

}  // namespace pipeledger
