// What flags say of the model's layers and its vocabulary, where a flag is not a field.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/text.h"
#include "launch/megatron_handlers.h"

namespace pipeledger {
namespace {

/// Sizes of vocabularies that a tokenizer's name tells; Megatron reads them from its files.
struct Tokenizer {
  std::string_view name;  // part of --tokenizer-type or --tokenizer-model, in small letters
  std::int64_t vocab_size;
};
constexpr std::array kTokenizers = {
    Tokenizer{"gpt2bpe", 50257},
    Tokenizer{"llama2", 32000},
    Tokenizer{"llama-2", 32000},
    Tokenizer{"mixtral", 32000},
    Tokenizer{"llama3", 128256},
    Tokenizer{"llama-3", 128256},
    Tokenizer{"mistral-7b-instruct-v0.3", 32768},
    // With their added tokens: len(tokenizer), as Megatron asks.
    Tokenizer{"qwen2.5", 151665},
    Tokenizer{"qwen2-", 151646},
    Tokenizer{"qwen3-", 151669},
};

}  // namespace

void map_spec(MegatronDocument& document) {
  const std::string parts = document.text("spec");
  if (parts.find("gated_delta_product") != std::string::npos ||
      parts.find("gdp_stack_spec") != std::string::npos)
    document.problem(document.position_of("spec"), "--spec",
                     "names gated delta product layers, not modelled");
}

/// Megatron-DeepSpeed writes it small.
void map_normalization(MegatronDocument& document) {
  if (document.value_at("model.normalization") == "rmsnorm" &&
      document.find("deepspeed") != nullptr)
    document.set("model.normalization", "RMSNorm", document.position_of("normalization"));
}

void map_positions(MegatronDocument& document) {
  const std::string path = "model.position_embedding_type";
  const bool is_rotary = document.is_on("use_rotary_position_embeddings");
  const std::string type = is_rotary ? "rope" : document.text("position_embedding_type");
  // These turn queries and keys, or (alibi) add to the scores: no table to hold.
  const bool has_no_table =
      type == "rope" || type == "rotary" || type == "yarn" || type == "mrope" || type == "alibi";
  if (type == "relative")
    document.problem(document.position_of("position_embedding_type"), path,
                     "relative is T5's, which is not modelled; write rope or learned_absolute");
  if (!document.is_overridden(path))
    document.set(path, has_no_table ? "rope" : type,
                 document.position_of("position_embedding_type"));
}

/// A gated activation other than SiLU has the same matrices, but Megatron's default width of an
/// ungated one.
void map_quick_geglu(MegatronDocument& document) {
  if (!document.is_on("quick_geglu")) return;
  document.set("model.swiglu", "true", document.position_of("quick_geglu"));
  if (!document.has("model.ffn_hidden_size"))
    document.set("model.ffn_hidden_size", std::to_string(4 * document.count("hidden_size", 0)),
                 document.position_of("hidden_size"));
}

/// Without --group-query-attention the number of groups is not asked.
void map_query_groups(MegatronDocument& document) {
  const std::string path = "model.num_query_groups";
  document.set_from("former_num_key_value_heads", path);
  if (!document.is_on("group_query_attention")) return;
  if (document.find("num_query_groups") != nullptr) {
    document.set_from("num_query_groups", path);
  } else {
    document.set(path, "1", document.position_of("group_query_attention"));
  }
}

/// "127,0": tokens before and behind one that it sees.
void map_window(MegatronDocument& document) {
  const std::string path = "model.window_size";
  const FlagUse* use = document.find("window_size");
  if (use == nullptr || use->values.empty()) return;
  document.took("window_size");
  if (document.is_overridden(path) || use->values.front().unknown)
    return document.set_from(*use, path);
  std::string sizes = joined(use->values);
  std::erase_if(sizes, [](char c) { return c == '(' || c == ')' || c == ' '; });
  const std::size_t comma = std::min(sizes.find(','), sizes.size());
  const std::string before = sizes.substr(0, comma);
  const std::string behind = sizes.substr(std::min(comma + 1, sizes.size()));
  const Position at = use->values.front().position;
  if (!whole_number(before) || !whole_number(behind) || (behind != "0" && behind != "-1"))
    return document.problem(
        at, path,
        fmt::format("{} is no window of tokens before one alone; write N,0", in_quotes(sizes)));
  document.remove(path);
  if (before == "-1") return document.remove("model.window_attn_skip_freq");
  document.set(path, before, at);
}

/// DeepSpeed's experts; it writes --num-experts 1 where there are none.
void map_former_experts(MegatronDocument& document) {
  const FlagUse* use = document.find("former_moe");
  if (use == nullptr) return;
  if (document.number_at("model.num_experts", 1) > 1)
    document.problem(use->position, use->name,
                     "is for DeepSpeed's experts, not modelled; Megatron-LM's are, "
                     "--moe-router-topk and the like");
  document.remove("model.num_experts");
}

void map_vocabulary(MegatronDocument& document) {
  const std::string path = "model.vocab_size";
  if (document.find("padded_vocab_size") != nullptr) {
    document.set_from("padded_vocab_size", path);
    return document.set("model.make_vocab_size_divisible_by", "1",
                        document.position_of("padded_vocab_size"));
  }
  document.set_from("vocab_size", path);
  if (document.has(path)) return;
  std::string name =
      lower_case(document.text("tokenizer_type") + " " + document.text("tokenizer_model") + " " +
                 document.text("vocab_file"));
  // The default of pretrain_gpt.py and its like (args_defaults), which recipes in YAML lack.
  if (document.find("tokenizer_type") == nullptr && document.is_command_line()) name += " gpt2bpe";
  for (const Tokenizer& tokenizer : kTokenizers) {
    if (name.find(tokenizer.name) == std::string::npos) continue;
    const char* dest =
        document.find("tokenizer_model") != nullptr ? "tokenizer_model" : "tokenizer_type";
    document.took(dest);
    document.note(
        document.find(dest) == nullptr
            ? fmt::format(
                  "model.vocab_size {} is taken: GPT-2's, as no --tokenizer-type is written",
                  tokenizer.vocab_size)
            : fmt::format("model.vocab_size {} is taken, as {} says {}", tokenizer.vocab_size,
                          find_megatron_dest(dest)->name(), in_quotes(document.text(dest))));
    return document.set(path, std::to_string(tokenizer.vocab_size), document.position_of(dest));
  }
  document.problem(document.position_of("tokenizer_type"), path,
                   "is missing: Megatron asks its tokenizer; add --set model.vocab_size=N");
}

}  // namespace pipeledger
