// [ ], test and [[ ]]: whether an if takes its branch.
#pragma once

#include <string>
#include <vector>

#include "shell/state.h"

namespace pipeledger {

/// How a command ended.
struct ShellOutcome {
  enum Kind {
    yes,
    no,
    unknown,  // a test of what is not known: `doubt` says of what
    done,     // another program, which is taken to succeed
  };
  Kind kind = yes;
  std::string doubt;
};

/// The words between the brackets. In [[ ]] a == takes patterns, && and || join.
ShellOutcome evaluate_test(const std::vector<ShellField>& words, bool is_double, const Letter& at,
                           ShellState& state);

}  // namespace pipeledger
