#include "sweep/constraint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/check.h"
#include "base/text.h"

namespace pipeledger {
namespace {

struct Size {
  std::string_view name;
  double (*of)(const Scenario&);
};

constexpr std::array kSizes = {
    Size{"gpus", [](const Scenario& s) { return static_cast<double>(s.parallel.world_size()); }},
    Size{"tensor_model_parallel_size",
         [](const Scenario& s) { return double(s.parallel.tensor_model_parallel_size); }},
    Size{"pipeline_model_parallel_size",
         [](const Scenario& s) { return double(s.parallel.pipeline_model_parallel_size); }},
    Size{"virtual_pipeline_model_parallel_size",
         [](const Scenario& s) { return double(s.parallel.virtual_pipeline_model_parallel_size); }},
    Size{"context_parallel_size",
         [](const Scenario& s) { return double(s.parallel.context_parallel_size); }},
    Size{"data_parallel_size",
         [](const Scenario& s) { return double(s.parallel.data_parallel_size); }},
    Size{"expert_model_parallel_size",
         [](const Scenario& s) { return double(s.parallel.expert_model_parallel_size); }},
    Size{"expert_tensor_parallel_size",
         [](const Scenario& s) { return double(s.parallel.expert_tensor_parallel_size); }},
    Size{"micro_batch_size",
         [](const Scenario& s) { return static_cast<double>(s.train.micro_batch_size); }},
    Size{"global_batch_size",
         [](const Scenario& s) { return static_cast<double>(s.train.global_batch_size); }},
    Size{"num_microbatches",
         [](const Scenario& s) { return static_cast<double>(s.train.num_microbatches); }},
    Size{"seq_length", [](const Scenario& s) { return static_cast<double>(s.train.seq_length); }},
    Size{"num_layers", [](const Scenario& s) { return double(s.model.num_layers); }},
    Size{"nodes", [](const Scenario& s) { return double(s.cluster.nodes); }},
};

[[noreturn]] void refuse(std::string_view text, std::string_view why) {
  throw InputError({{.field = "--where",
                     .message = fmt::format("'{}' {}; write e.g. 'tensor_model_parallel_size * "
                                            "pipeline_model_parallel_size <= 64'",
                                            text, why)}});
}

std::optional<double> number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

const Size* find_size(std::string_view name) {
  const auto found = std::find_if(kSizes.begin(), kSizes.end(),
                                  [&](const Size& size) { return size.name == name; });
  return found == kSizes.end() ? nullptr : &*found;
}

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(trimmed(text.substr(begin, end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::string checked_factor(std::string_view text, std::string_view whole_text) {
  if (text.empty()) refuse(whole_text, "lacks a name or a number");
  // parallel.tensor_model_parallel_size is as welcome.
  const std::size_t dot = text.find('.');
  const bool has_section = dot != std::string_view::npos && !number(text);
  const std::string_view name = has_section ? text.substr(dot + 1) : text;
  if (number(name) || find_size(name) != nullptr) return std::string(name);
  std::vector<std::string> names;
  for (const Size& size : kSizes) names.emplace_back(size.name);
  const std::string near = nearest(name, names);
  refuse(whole_text, fmt::format("names {}, which is not one of {}{}", name, join(names),
                                 near.empty() ? "" : "; did you mean " + near + "?"));
}

Constraint::Sum parse_sum(std::string_view text, std::string_view whole_text) {
  Constraint::Sum sum;
  for (const std::string_view product : split(text, '+')) {
    sum.emplace_back();
    for (const std::string_view factor : split(product, '*'))
      sum.back().push_back(checked_factor(factor, whole_text));
  }
  return sum;
}

double value(const Constraint::Sum& sum, const Scenario& scenario) {
  double total = 0;
  for (const Constraint::Product& product : sum) {
    double term = 1;
    for (const std::string& factor : product) {
      const Size* size = find_size(factor);
      term *= size != nullptr ? size->of(scenario) : number(factor).value_or(0);
    }
    total += term;
  }
  return total;
}

}  // namespace

Constraint parse_constraint(std::string_view text) {
  // The two-letter ones first: < is the beginning of <=.
  for (const std::string_view comparison : {"<=", ">=", "==", "!=", "<", ">"}) {
    const std::size_t at = text.find(comparison);
    if (at == std::string_view::npos) continue;
    return {.text = std::string(text),
            .left = parse_sum(text.substr(0, at), text),
            .right = parse_sum(text.substr(at + comparison.size()), text),
            .comparison = std::string(comparison)};
  }
  refuse(text, "compares nothing");
}

bool holds(const Constraint& constraint, const Scenario& scenario) {
  const double left = value(constraint.left, scenario);
  const double right = value(constraint.right, scenario);
  if (constraint.comparison == "<=") return left <= right;
  if (constraint.comparison == ">=") return left >= right;
  if (constraint.comparison == "==") return left == right;
  if (constraint.comparison == "!=") return left != right;
  if (constraint.comparison == "<") return left < right;
  return left > right;
}

}  // namespace pipeledger
