#include "spec/findings.h"

#include <fmt/format.h>

#include <utility>

#include "base/override.h"

namespace pipeledger {
namespace {

/// "a.b.c" -> "a.b" -> "a" -> "".
std::string_view group_around(std::string_view path) {
  const std::size_t dot = path.find_last_of(".[");
  return dot == std::string_view::npos ? "" : path.substr(0, dot);
}

}  // namespace

Findings::Findings(FieldReport report, bool tolerates_idle)
    : problems(std::move(report.problems)),
      positions(std::move(report.positions)),
      tolerates_idle_(tolerates_idle) {
  for (const Problem& problem : problems) unsound_.insert(problem.field);
}

void Findings::add(const std::string& field, std::string message,
                   std::initializer_list<std::string_view> depends_on) {
  bool is_told = problems.size() < kMaxProblems && is_sound(field);
  for (const std::string_view other : depends_on) is_told = is_told && is_sound(other);
  if (is_told) problems.push_back(Problem{.field = field, .message = std::move(message)});
}

void Findings::add_idle(const std::string& field, std::string_view why,
                        std::initializer_list<std::string_view> depends_on) {
  const auto written = positions.find(field);
  if (written == positions.end()) return;
  if (tolerates_idle_ && written->second.file != kSetFlag) {
    idle.push_back({.field = field, .message = fmt::format("does nothing {}", why)});
  } else {
    add(field, fmt::format("does nothing {}; remove it", why), depends_on);
  }
}

void Findings::reject(const std::string& field, std::string message) {
  add(field, std::move(message));
  silence(field);
}

void Findings::reject(const std::string& field, const std::vector<Problem>& others) {
  problems.insert(problems.end(), others.begin(), others.end());
  silence(field);
}

bool Findings::is_sound(std::string_view field) const {
  for (; !field.empty(); field = group_around(field)) {
    if (unsound_.contains(field)) return false;
  }
  return true;
}

Problem located(Problem problem, const std::map<std::string, Position, std::less<>>& positions) {
  if (!problem.file.empty()) return problem;
  for (std::string_view field = problem.field;; field = group_around(field)) {
    const auto found = positions.find(field);
    if (found != positions.end()) {
      problem.file = found->second.file;
      problem.line = found->second.line;
      problem.column = found->second.column;
      return problem;
    }
    if (field.empty()) return problem;
  }
}

}  // namespace pipeledger
