// Problems of an input that may hold millions: the first few in full, the rest as a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/problem.h"

namespace pipeledger {

inline constexpr std::size_t kMaxFirstProblems = 20;

class FirstProblems {
 public:
  bool empty() const { return problems_.empty(); }
  void add(Problem problem) {
    if (problems_.size() < kMaxFirstProblems) {
      problems_.push_back(std::move(problem));
    } else {
      ++num_more_;
    }
  }

  /// The problems, and one more that says how many were left out.
  std::vector<Problem> take(std::string_view file = {}) && {
    if (num_more_ > 0) {
      problems_.push_back({.message = "and " + std::to_string(num_more_) + " more like these",
                           .file = std::string(file)});
    }
    return std::move(problems_);
  }

 private:
  std::vector<Problem> problems_;
  std::int64_t num_more_ = 0;
};

}  // namespace pipeledger
