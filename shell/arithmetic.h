// $(( )) and (( )): 64-bit whole numbers, as bash has them.
#pragma once

#include <cstdint>

#include "shell/state.h"

namespace pipeledger {

struct ShellNumber {
  std::int64_t value = 0;
  std::int32_t unknown = -1;  // in ShellState::unknowns: the value is not known
};

/// The value of an expression, variables named with or without $, assignments (=, +=, ++, ...)
/// done unless `is_mute`. Fails at `at` on what is no expression and on division by zero.
ShellNumber evaluate(const ShellText& expression, const Letter& at, ShellState& state,
                     bool is_mute);

}  // namespace pipeledger
