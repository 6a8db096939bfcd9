// The flags of a launch, and the scenario's document that they write. For launch/megatron_*.cc
// alone.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/override.h"
#include "launch/megatron_args.h"
#include "spec/document.h"

namespace pipeledger {

struct FlagHandler;

/// Which of Megatron's programs runs, as far as their flags mean different things.
enum class MultimodalProgram { none, pretrain_vlm, examples };

/// The number when `text` is a whole one.
std::optional<std::int64_t> whole_number(std::string_view text);
/// The words with blanks between them.
std::string joined(const std::vector<ShellWord>& words);
std::string lower_case(std::string text);
/// Python's or YAML's word for no value.
bool is_none(std::string_view value);

/// While a handler is at work, what it asks and writes must be what it declares; anything else is a
/// bug and aborts.
class MegatronDocument {
 public:
  /// Both are kept by reference. `overrides` are only asked which fields they set.
  MegatronDocument(const std::vector<MegatronCommand>& commands,
                   const std::vector<Override>& overrides);

  // ---- flags, by the attribute they set ----

  /// The last use; nullptr when the flag is not written.
  const FlagUse* find(std::string_view dest) const;
  /// A switch that is written, and on.
  bool is_on(std::string_view dest) const;
  /// The value written, or Megatron's default.
  std::string text(std::string_view dest) const;
  std::int64_t count(std::string_view dest, std::int64_t otherwise) const;
  /// Where it is written; where the launch begins when it is not.
  Position position_of(std::string_view dest) const;
  /// A flag that gives a hint did so: it is not told as ignored.
  void took(std::string_view dest) { taken_.emplace(dest); }
  /// Flags all, no keys of YAML.
  bool is_command_line() const;
  /// Attributes in the order in which they are first written.
  const std::vector<std::string>& order() const { return order_; }
  bool is_taken(const std::string& dest) const { return taken_.contains(dest); }

  // ---- fields, by path ----

  void set(const std::string& path, std::string value, const Position& position);
  /// The value of a flag; one that the shell does not know is a problem of the field. What --set
  /// says stays.
  void set_from(const FlagUse& use, const std::string& path);
  /// The same where the flag is written.
  void set_from(std::string_view dest, const std::string& path);
  /// The field is a list of names, each where it stands. Requires that it is set.
  void make_list(const std::string& path, const std::vector<ShellWord>& values);
  void remove(const std::string& path);
  /// The word at `path`, "" when there is none.
  std::string value_at(const std::string& path) const;
  /// Set by a flag or by --set, or told wrong already.
  bool has(const std::string& path) const;
  /// The number at `path`, of --set or of the flags; `otherwise` when there is none.
  std::int64_t number_at(const std::string& path, std::int64_t otherwise) const;
  bool is_overridden(std::string_view path) const { return overridden_.contains(path); }

  void problem(const Position& position, const std::string& field, std::string message);
  void note(std::string text) { notes.push_back(std::move(text)); }

  const std::vector<MegatronCommand>& commands() const { return commands_; }
  /// Of what no flag says.
  const Position& where() const { return where_; }

  void enter(const FlagHandler* handler) { handler_ = handler; }

  Node root;
  std::vector<Problem> problems;
  std::vector<std::string> notes;
  MultimodalProgram program = MultimodalProgram::none;

 private:
  void remember(const FlagUse& use);
  Node* node_at(std::string_view path, bool creates, const Position& position);
  const Node* node_at(std::string_view path) const;
  void check_write(const std::string& path) const;
  void check_read(const std::string& path) const;

  const std::vector<MegatronCommand>& commands_;
  std::map<std::string, std::string, std::less<>> overridden_;  // by path
  std::map<std::string, const FlagUse*, std::less<>> uses_;     // by attribute, the last
  std::vector<std::string> order_;
  std::set<std::string, std::less<>> taken_;
  Position where_;
  const FlagHandler* handler_ = nullptr;
};

}  // namespace pipeledger
