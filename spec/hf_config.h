// Hugging Face config.json: the facts of a model, in that library's words.
#pragma once

#include <string>
#include <string_view>

namespace pipeledger {

namespace proto {
class Model;
}

/// Sets the fields of `model` that the config.json text states, for the families Llama, Mistral,
/// Qwen2 and GPT-NeoX. Throws InputError naming `file` with every problem found: an architecture
/// we do not model, a missing or ill-typed key, an activation we do not know.
void read_hf_config(std::string_view text, const std::string& file, proto::Model& model);

}  // namespace pipeledger
