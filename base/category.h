// What a resident byte is for: the rows of every memory table, counter and stack.
#pragma once

#include <array>
#include <string_view>

namespace pipeledger {

enum class Category {
  weights,
  gradients,
  optimizer,
  activations,  // what backward needs of the layers, the embedding and the final norm
  logits,       // the output layer's logits and what the loss keeps of them
  p2p_buffers,  // stage inputs and outputs, and their gradients, on their way between ranks
  workspace,    // lives within one op: recomputed activations, gathered parameters; and what the
                // framework keeps for itself from step to step
};

inline constexpr std::array kCategories = {
    Category::weights, Category::gradients,   Category::optimizer, Category::activations,
    Category::logits,  Category::p2p_buffers, Category::workspace,
};
inline constexpr std::size_t kNumCategories = kCategories.size();

/// The snake_case name used in every output file.
constexpr std::string_view name(Category category) {
  constexpr std::array<std::string_view, kNumCategories> names = {
      "weights", "gradients", "optimizer", "activations", "logits", "p2p_buffers", "workspace"};
  return names[static_cast<std::size_t>(category)];
}

}  // namespace pipeledger
