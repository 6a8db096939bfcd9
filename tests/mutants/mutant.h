// What tests/mutants.sh puts at the head of a file that it mutates.
#pragma once

#include <cstdlib>

/// Whether this run is of mutant `number`: environment variable PIPELEDGER_MUTANT.
inline bool pipeledger_mutant(int number) {
  static const char* const chosen = std::getenv("PIPELEDGER_MUTANT");
  static const int value = chosen == nullptr ? 0 : std::atoi(chosen);
  return value == number;
}
