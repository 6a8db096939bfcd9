// What the readers of written schedules share.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/first_problems.h"
#include "schedules/schedule.h"

namespace pipeledger {

/// Blanks between and around tokens.
inline constexpr std::string_view kBlanks = " \t\r\v\f";

/// A token as it can be shown: printable, and short.
std::string shown(std::string_view token);

/// Reads the digits at the front of `rest` and drops them; nullopt: none there. A number over
/// kMaxOps comes back as kMaxOps, whatever its length.
std::optional<int> take_number(std::string_view& rest);

/// "0F3" or "0F3.1". nullopt: `message` says what is wrong with the token.
std::optional<Op> parse_op(std::string_view token, std::string& message);

/// Calls `line(number, text)` for each line, numbers from 1.
template <class Line>
void for_each_line(std::string_view text, Line line) {
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    line(number, text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

/// The ops of a file as they are read, with all problems of the file.
class OpsReader {
 public:
  explicit OpsReader(std::string_view file) : file_(file) {}

  void add_rank() { ranks_.emplace_back(); }
  bool has_rank() const { return !ranks_.empty(); }
  /// Adds to the last rank; more than kMaxOps in all are a problem.
  void add(const Op& op);
  /// The last op added overlaps the next.
  void overlap_next();
  void add(Problem problem) { problems_.add(std::move(problem)); }

  /// The schedule that `name` is: counts and placement follow from the ops. Throws InputError with
  /// the problems found, or `remedy` when there is no rank.
  Schedule take(std::string_view remedy) &&;

 private:
  std::string file_;
  std::int64_t num_ops_ = 0;
  FirstProblems problems_;
  std::vector<std::vector<Op>> ranks_;
};

}  // namespace pipeledger
