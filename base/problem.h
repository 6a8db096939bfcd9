// What is wrong with an input, said once and completely.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace pipeledger {

/// One thing wrong with an input. `message` holds the value and the remedy.
struct Problem {
  std::string field;    // path such as train.global_batch_size; empty: the input as a whole
  std::string message;  // "6 is not a multiple of ...; nearest legal: 4, 8"
  std::string file;     // empty: not from a file (a flag, a default)
  int line = 0;         // 1-based; 0: unknown
  int column = 0;       // 1-based; 0: unknown

  bool operator==(const Problem&) const = default;
};

/// "llama.yaml:7:24: train.global_batch_size: message"; parts that are unknown are left out.
std::string to_text(const Problem& problem);

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
