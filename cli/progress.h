// What a person sees while something takes long.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

namespace pipeledger {

/// On a terminal: one line on stderr, from the second second of a run to its end.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows the share that is done, no more often than kInterval. Empty where stderr is no terminal.
  std::function<void(double)> callback();

  /// A bar, "sweeping [####    ] 120 of 300", no more often than kInterval.
  void bar(const std::string& what, std::size_t done, std::size_t total);

  /// In the first second: nothing.
  void show(const std::string& text);

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point begin_ = Clock::now();
  Clock::time_point next_ = begin_;
  bool shown_ = false;
  bool terminal_;
};

}  // namespace pipeledger
