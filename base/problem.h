// What is wrong with an input, said once and completely.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipeledger {

/// Where a field was written: a file's line and column, or a flag.
struct Position {
  std::string file;
  int line = 0;
  int column = 0;

  bool operator==(const Position&) const = default;
};

/// One thing wrong with an input. `message` holds the value and the remedy.
struct Problem {
  std::string field;    // path such as train.global_batch_size; empty: the input as a whole
  std::string message;  // "6 is not a multiple of ...; nearest legal: 4, 8"
  std::string file;     // empty: not from a file (a flag, a default)
  int line = 0;         // 1-based; 0: unknown
  int column = 0;       // 1-based; 0: unknown

  bool operator==(const Problem&) const = default;
};

/// Problem{field, message} with file, line and column taken from `position`.
Problem problem_at(const Position& position, std::string field, std::string message);

/// "llama.yaml:7:24: train.global_batch_size: message"; parts that are unknown are left out.
std::string to_text(const Problem& problem);

/// More problems than this are not told: the file is something else altogether.
inline constexpr std::size_t kMaxProblems = 100;

/// The input is wrong: main prints every problem and exits with 2.
class InputError : public std::runtime_error {
 public:
  explicit InputError(std::vector<Problem> problems);
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The run failed through no fault of the input (a file that cannot be written): exit 1.
class RunError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace pipeledger
