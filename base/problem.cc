#include "base/problem.h"

#include <fmt/format.h>

#include <utility>

namespace pipeledger {
namespace {

std::string join(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    if (!text.empty()) text += '\n';
    text += to_text(problem);
  }
  return text;
}

}  // namespace

Problem problem_at(const Position& position, std::string field, std::string message) {
  return Problem{std::move(field), std::move(message), position.file, position.line,
                 position.column};
}

std::string to_text(const Problem& problem) {
  std::string text = problem.file;
  if (problem.line > 0) {
    text += fmt::format("{}{}", text.empty() ? "line " : ":", problem.line);
    if (problem.column > 0) text += fmt::format(":{}", problem.column);
  }
  for (const std::string& part : {problem.field, problem.message}) {
    if (part.empty()) continue;
    if (!text.empty()) text += ": ";
    text += part;
  }
  return text;
}

InputError::InputError(std::vector<Problem> problems)
    : std::runtime_error(join(problems)), problems_(std::move(problems)) {}

}  // namespace pipeledger
