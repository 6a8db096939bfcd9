// Vision-language launches: what pretrain_vlm.py and examples/multimodal make of their flags.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

enum class MultimodalProgram { none, pretrain_vlm, examples };

/// The flags of a launch, by attribute.
struct MultimodalFlags {
  std::function<std::string(std::string_view)> text;  // as written, else Megatron's default
  std::function<bool(std::string_view)> is_on;        // of a switch
  std::function<bool(std::string_view)> is_written;   // by a flag
  std::function<bool(std::string_view)> is_set;       // by --set, as a scenario's field
  std::int64_t tensor_size = 1, context_size = 1;

  std::int64_t count(std::string_view dest, std::int64_t otherwise) const;
};

/// A field of the scenario that a flag decides.
struct MultimodalField {
  std::string path, value;
  std::string_view dest;
};
struct MultimodalProblem {
  std::string_view dest;
  std::string field, message;
};
struct MultimodalFields {
  std::vector<MultimodalField> fields;
  std::vector<MultimodalProblem> problems;
  std::vector<std::string> notes;
};

/// Tower, projection, what is frozen, and the language model's sequence. Megatron-LM d98e8a64dd:
/// pretrain_vlm.py gives the tower the language model's own sizes; examples/multimodal knows towers
/// and language models by name (config.py, model.py, llava_model.py).
MultimodalFields multimodal_fields(MultimodalProgram program, const MultimodalFlags& flags);

}  // namespace pipeledger
