// YAML files whose keys are Megatron's arguments, whatever group they stand in.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <optional>
#include <set>
#include <utility>

#include "base/override.h"
#include "base/text.h"
#include "launch/megatron_args.h"
#include "launch/megatron_document.h"
#include "spec/document.h"

namespace pipeledger {
namespace {

/// A key of another project, and the attribute of Megatron's that means the same.
struct Alias {
  std::string_view group;  // that it stands in; empty: any
  std::string_view key, dest;
};
// NeMo 1 (megatron_gpt_config.yaml), Megatron Bridge and Megatron-LM's TransformerConfig.
constexpr std::array kAliases = {
    Alias{"", "num_moe_experts", "num_experts"},
    Alias{"", "num_layers_in_first_pipeline_stage", "decoder_first_pipeline_num_layers"},
    Alias{"", "num_layers_in_last_pipeline_stage", "decoder_last_pipeline_num_layers"},
    Alias{"", "virtual_pipeline_model_parallel_size", "num_virtual_stages_per_pipeline_rank"},
    Alias{"", "activations_checkpoint_granularity", "recompute_granularity"},
    Alias{"", "activations_checkpoint_method", "recompute_method"},
    Alias{"", "activations_checkpoint_num_layers", "recompute_num_layers"},
    Alias{"", "overlap_grad_sync", "overlap_grad_reduce"},
    Alias{"", "overlap_param_sync", "overlap_param_gather"},
    Alias{"", "overlap_p2p_communication", "overlap_p2p_comm"},
    Alias{"", "ub_tp_comm_overlap", "tp_comm_overlap"},
    Alias{"", "override_vocab_size", "vocab_size"},
    Alias{"", "use_flash_attention", "use_flash_attn"},
    Alias{"", "flash_attention", "use_flash_attn"},
    Alias{"", "grad_reduce_in_fp32", "accumulate_allreduce_grads_in_fp32"},
    Alias{"", "bias", "add_bias_linear"},
    Alias{"", "gated_linear_unit", "swiglu"},
    Alias{"", "fp8_format", "fp8"},
    Alias{"", "fp8_param", "fp8_param_gather"},
    Alias{"tokenizer", "type", "tokenizer_type"},
    Alias{"tokenizer", "library", "tokenizer_type"},
    Alias{"tokenizer", "model", "tokenizer_model"},
};

/// More ${...} than any file has.
constexpr int kMaxInterpolated = 10'000;
constexpr std::size_t kMaxInterpolatedText = 4096;

std::string normal(const std::string& key) {
  std::string name = key.starts_with("--") ? key.substr(2) : key;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

bool is_environment_name(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isupper(c) != 0 || std::isdigit(c) != 0 || c == '_';
  });
}

class YamlReader {
 public:
  YamlReader(const Node& root, const std::string& file, const MegatronReading& reading)
      : root_(root), reading_(reading) {
    command_.position.file = file;
  }

  MegatronCommand read() {
    group(root_, "");
    if (command_.uses.empty() && !reading_.may_hold_nothing)
      throw InputError({problem_at(
          command_.position, "", "holds no field with a name of Megatron's, such as num_layers")});
    constexpr std::size_t kLegible = 40;
    const std::size_t num_hidden = unknown_.size() > kLegible ? unknown_.size() - kLegible : 0;
    unknown_.resize(unknown_.size() - num_hidden);
    if (!unknown_.empty())
      command_.notes.push_back("keys that are not Megatron's, ignored: " + join(unknown_) +
                               (num_hidden > 0 ? fmt::format(" and {} more", num_hidden) : ""));
    return std::move(command_);
  }

 private:
  void group(const Node& node, const std::string& name) {
    groups_.push_back(&node);
    members(node, name);
    groups_.pop_back();
  }

  void members(const Node& node, const std::string& name) {
    for (const Member& member : node.members) {
      if (command_.problems.size() >= kMaxProblems) return;
      if (member.value.kind == Node::Kind::group) {
        group(member.value, member.key);
      } else {
        key(name, member);
      }
    }
  }

  void key(const std::string& group, const Member& member) {
    if (member.value.kind == Node::Kind::nothing) return;
    const std::string name = normal(member.key);
    if (special(group, name, member)) return;
    for (const Alias& alias : kAliases)
      if (alias.key == name && (alias.group.empty() || alias.group == group))
        return use(*find_megatron_dest(alias.dest), member, values(member));
    if (const MegatronFlag* flag = find_megatron_dest(name))
      return use(*flag, member, values(member));
    // A flag's name without its dashes: disable_bias_linear, no_rope_fusion.
    std::string written = "--" + name;
    std::replace(written.begin() + 2, written.end(), '_', '-');
    if (const std::optional<FoundFlag> found = find_megatron_flag(written))
      return named(*found, member);
    if (member.key.starts_with("--") && !reading_.ignores_unknown)
      return problem(member.position, member.key,
                     fmt::format("is not a flag of Megatron-LM{}; --skip-unknown leaves "
                                 "it out",
                                 did_you_mean(member.key, megatron_flag_names())));
    unknown_.push_back(member.key);
  }

  void problem(const Position& position, const std::string& field, std::string message) {
    command_.problems.push_back(problem_at(position, field, std::move(message)));
  }

  // ---- uses ----

  void use(const MegatronFlag& flag, const Member& member, std::vector<ShellWord> values) {
    FlagUse use{.flag = &flag, .name = member.key, .position = member.position};
    use.is_checked = false;
    const std::string first = values.empty() ? "" : lower_case(values.front().text);
    if (first == "null" || first == "none") return;
    if (flag.action != FlagAction::store) {
      const bool is_true = first == "true" || first == "1";
      const bool is_truth = is_true || first == "false" || first == "0";
      if (values.size() != 1 || !is_truth || values.front().unknown)
        return problem(member.value.position, member.key,
                       fmt::format("{} is not true or false", in_quotes(first)));
      use.is_on = is_true;
    } else {
      use.values = std::move(values);
    }
    command_.uses.push_back(std::move(use));
  }

  /// A key that is a flag's name, not its attribute: no_rope_fusion: true stores false.
  void named(const FoundFlag& found, const Member& member) {
    const std::size_t before = command_.uses.size();
    use(*found.flag, member, values(member));
    if (command_.uses.size() == before) return;
    FlagUse& last = command_.uses.back();
    const bool stores_false = found.is_negated || found.flag->action == FlagAction::store_false;
    if (stores_false) last.is_on = !last.is_on;
  }

  void add(std::string_view dest, const Member& member, const std::string& value) {
    const MegatronFlag& flag = *find_megatron_dest(dest);
    FlagUse use{.flag = &flag, .name = member.key, .position = member.position};
    if (flag.action == FlagAction::store) {
      use.values.push_back({.text = value, .position = member.value.position});
    } else {
      use.is_on = value == "true";
    }
    command_.uses.push_back(std::move(use));
  }

  /// Keys whose values say something else than Megatron's would.
  bool special(const std::string& group, const std::string& name, const Member& member) {
    const std::string value = lower_case(member.value.text);
    if (name == "precision" || name == "mixed_precision" || name == "params_dtype") {
      const bool is_bf16 =
          value.find("bf16") != std::string::npos || value.find("bfloat16") != std::string::npos;
      const bool is_fp16 = !is_bf16 && value.find("16") != std::string::npos;
      if (is_bf16 || is_fp16) add(is_bf16 ? "bf16" : "fp16", member, "true");
      return true;
    }
    if (name == "num_query_groups") {
      add("group_query_attention", member, "true");
      return false;
    }
    if (name == "share_embeddings_and_output_weights") {
      add("untie_embeddings_and_output_weights", member, value == "true" ? "false" : "true");
      return true;
    }
    if (name == "normalization" && value.find("norm") != std::string::npos) {
      add("normalization", member, value == "rmsnorm" ? "RMSNorm" : "LayerNorm");
      return true;
    }
    if (name == "activation" || name == "activation_func") {
      if (value.find("glu") != std::string::npos) add("swiglu", member, "true");
      return true;
    }
    if (group == "optim" && name == "name") {
      if (value.find("distributed") != std::string::npos)
        add("use_distributed_optimizer", member, "true");
      return true;
    }
    // NeMo's switch, with fp8_hybrid or fp8_e4m3 beside it.
    if (name == "fp8" && (value == "true" || value == "false")) {
      if (value == "true") add("fp8", member, "hybrid");
      return true;
    }
    if ((name == "num_nodes" || name == "nnodes") && group != "exp_manager")
      return launch("--nnodes", member);
    if ((name == "devices" && group == "trainer") || name == "gpus_per_node" ||
        name == "nproc_per_node")
      return launch("--nproc_per_node", member);
    // Primus: the model's own file, of which this one overrides fields.
    if (name == "extends") return true;
    if ((name == "model" || name == "config") && value.ends_with(".yaml")) {
      command_.notes.push_back(fmt::format("{}:{}: {} is not read; give it too, before this file",
                                           member.position.file, member.position.line,
                                           in_quotes(member.value.text)));
      return true;
    }
    return false;
  }

  /// As if the launcher had said it.
  bool launch(std::string_view flag, const Member& member) {
    const std::vector<ShellWord> words = values(member);
    if (words.size() != 1 || words[0].text == "-1" || words[0].text == "auto") return true;
    command_.launcher.push_back({.text = std::string(flag), .position = member.position});
    command_.launcher.push_back(words[0]);
    return true;
  }

  // ---- values ----

  std::vector<ShellWord> values(const Member& member) {
    const Node& value = member.value;
    if (value.kind != Node::Kind::list) return {word(value, 0)};
    std::vector<ShellWord> words;
    const std::string key = normal(member.key);
    const bool is_pattern =
        key == "moe_layer_freq" || key == "linear_attention_freq" || key == "no_rope_freq";
    std::string pattern;
    for (const Node& item : value.items) {
      words.push_back(word(item, 0));
      pattern += (pattern.empty() ? "[" : ",") + words.back().text;
    }
    // The list that a flag would hold in one word.
    if (is_pattern && !words.empty()) {
      ShellWord one = words.front();
      one.text = pattern + "]";
      return {one};
    }
    return words;
  }

  static std::string list_text(const Node& node) {
    if (node.kind != Node::Kind::list) return node.text;
    std::vector<std::string> items;
    for (const Node& item : node.items) items.push_back(list_text(item));
    return "[" + join(items) + "]";
  }

  /// The text of a node with its ${...} worked out.
  ShellWord word(const Node& node, int depth) {
    ShellWord word{.text = list_text(node), .position = node.position};
    const std::string written = std::exchange(word.text, "");
    for (std::size_t at = 0; at < written.size();) {
      const std::size_t end = written.compare(at, 2, "${") == 0 ? behind_braces(written, at) : at;
      if (end == at) {
        word.text += written[at++];
        continue;
      }
      const std::string inside = written.substr(at + 2, end - at - 3);
      const std::optional<std::string> value =
          depth < kMaxDepth ? interpolated(inside, depth) : std::nullopt;
      if (value) {
        word.text += *value;
      } else {
        const std::string name = inside.substr(0, inside.find(':'));
        word.unknown = ShellUnknown{is_environment_name(name) ? name : "", in_quotes(written)};
        word.text += written.substr(at, end - at);
      }
      at = end;
    }
    return word;
  }

  /// Behind the } of the ${ at `at`; `at` when there is none.
  static std::size_t behind_braces(const std::string& text, std::size_t at) {
    int depth = 0;
    for (std::size_t i = at; i < text.size(); ++i) {
      if (text[i] == '{') ++depth;
      if (text[i] == '}' && --depth == 0) return i + 1;
    }
    return at;
  }

  /// What stands for ${inside}: a variable of the environment, another key, a product of NeMo's.
  std::optional<std::string> interpolated(const std::string& inside, int depth) {
    if (++num_interpolated_ > kMaxInterpolated) return std::nullopt;
    if (std::optional<std::string> value = environment(inside)) return value;
    const std::size_t colon = inside.find(':');
    if (colon != std::string::npos)
      return computed(inside.substr(0, colon), inside.substr(colon + 1), depth);
    const Node* target = find(inside);
    if (target == nullptr) return std::nullopt;
    ShellWord found = word(*target, depth + 1);
    if (found.unknown || found.text.size() > kMaxInterpolatedText) return std::nullopt;
    return std::move(found.text);
  }

  /// NeMo's resolvers: multiply, add, divide (without its rest).
  std::optional<std::string> computed(const std::string& resolver, const std::string& operands,
                                      int depth) {
    const ShellWord words = word({.kind = Node::Kind::word, .text = operands}, depth + 1);
    if (words.unknown) return std::nullopt;
    std::optional<std::int64_t> result;
    for (std::size_t begin = 0; begin <= words.text.size();) {
      const std::size_t end = std::min(words.text.find(',', begin), words.text.size());
      const std::size_t first = std::min(words.text.find_first_not_of(' ', begin), end);
      const char* behind = words.text.data() + end;
      std::int64_t value = 0;
      const auto [stop, error] = std::from_chars(words.text.data() + first, behind, value);
      if (error != std::errc() || stop != behind) return std::nullopt;
      result = result ? combined(resolver, *result, value) : value;
      if (!result) return std::nullopt;
      begin = end + 1;
    }
    return std::to_string(*result);
  }

  static std::optional<std::int64_t> combined(const std::string& resolver, std::int64_t a,
                                              std::int64_t b) {
    std::int64_t result = 0;
    if (resolver == "multiply" && !__builtin_mul_overflow(a, b, &result)) return result;
    if (resolver == "add" && !__builtin_add_overflow(a, b, &result)) return result;
    if ((resolver == "divide" || resolver == "div") && b > 0) return a / b;
    return std::nullopt;
  }

  /// ${NAME:default} of Primus, ${oc.env:NAME,default} of OmegaConf.
  std::optional<std::string> environment(std::string inside) const {
    const bool is_omega = inside.starts_with("oc.env:");
    if (is_omega) inside = inside.substr(7);
    const std::size_t separator = inside.find(is_omega ? ',' : ':');
    const std::string name = inside.substr(0, separator);
    if (!is_environment_name(name)) return std::nullopt;
    for (const Override& variable : reading_.environment)
      if (variable.path == name) return variable.value;
    if (separator == std::string::npos) return std::nullopt;
    return inside.substr(separator + 1);
  }

  /// ${model.seq_length} from the root; ${.seq_length} from the group around, a dot more from the
  /// one around that.
  const Node* find(std::string path) const {
    const std::size_t dots = path.find_first_not_of('.');
    if (dots == std::string::npos || dots > groups_.size()) return nullptr;
    const Node* node = dots == 0 ? &root_ : groups_[groups_.size() - dots];
    path.erase(0, dots);
    while (!path.empty()) {
      const std::string key = path.substr(0, path.find('.'));
      path.erase(0, key.size() + 1);
      const auto found = std::find_if(node->members.begin(), node->members.end(),
                                      [&](const Member& member) { return member.key == key; });
      if (found == node->members.end()) return nullptr;
      node = &found->value;
    }
    return node->kind == Node::Kind::group ? nullptr : node;
  }

  const Node& root_;
  const MegatronReading& reading_;
  MegatronCommand command_;
  std::vector<std::string> unknown_;
  std::vector<const Node*> groups_;  // around the key that is read, the innermost last
  int num_interpolated_ = 0;
};

}  // namespace

namespace {

const Node* member_of(const Node& group, std::string_view key) {
  for (const Member& member : group.members)
    if (member.key == key) return &member.value;
  return nullptr;
}

/// ${NAME:default} as its default, all over the text.
std::string with_defaults(std::string text) {
  for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", at)) {
    const std::size_t end = text.find('}', at), colon = text.find(':', at);
    if (end == std::string::npos || colon > end) return text;
    text = text.substr(0, at) + text.substr(colon + 1, end - colon - 1) + text.substr(end + 1);
  }
  return text;
}

/// An experiment of Primus: its trainer names a framework, and files of that framework's folders.
void primus_files(const Node& root, std::vector<std::string>& files) {
  const Node* modules = member_of(root, "modules");
  if (modules == nullptr) return;
  for (const Member& module : modules->members) {
    const Node* framework = member_of(module.value, "framework");
    for (const auto& [key, folder] :
         {std::pair("config", "modules"), std::pair("model", "models")}) {
      const Node* name = member_of(module.value, key);
      if (framework == nullptr || name == nullptr) continue;
      files.push_back(with_defaults("primus/configs/" + std::string(folder) + "/" +
                                    framework->text + "/" + name->text));
    }
  }
}

}  // namespace

std::vector<std::string> extended_files(std::string_view text, const std::string& file) {
  std::vector<std::string> files;
  const Node root = read_yaml(text, file);
  if (const Node* extends = member_of(root, "extends"))
    for (const Node& item : extends->items) files.push_back(item.text);
  primus_files(root, files);
  return files;
}

MegatronCommand read_megatron_yaml(std::string_view text, const std::string& file,
                                   const MegatronReading& reading) {
  const Node root = read_yaml(text, file);
  return YamlReader(root, file, reading).read();
}

}  // namespace pipeledger
