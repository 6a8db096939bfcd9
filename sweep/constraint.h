// What the points of a sweep must fulfil: "tensor_model_parallel_size * 2 <= gpus".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "spec/scenario.h"

namespace pipeledger {

/// Two sums of products of sizes and numbers, and how they compare.
struct Constraint {
  using Product = std::vector<std::string>;  // factors: names or numbers
  using Sum = std::vector<Product>;

  std::string text;
  Sum left, right;
  std::string comparison;  // <=, >=, ==, !=, < or >
};

/// Names are the sizes of a scenario without their section (pipeline_model_parallel_size,
/// num_microbatches, ...), and `gpus`, the size of the world.
/// Throws InputError for what is not a comparison, or names something else.
Constraint parse_constraint(std::string_view text);

bool holds(const Constraint& constraint, const Scenario& scenario);

}  // namespace pipeledger
