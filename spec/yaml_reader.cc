// YAML through yaml-cpp's events: its own Node type expands aliases and loses marks.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>
#include <vector>

#include "spec/document.h"

namespace pipeledger {
namespace {

/// Ends the parse at the first event that no scenario may contain.
struct Refusal {
  Problem problem;
};

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& file) : file_(file) { root_.position.file = file; }

  Node take_root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (std::exchange(has_document_, true))
      refuse(mark, "a second document begins; a scenario is one document, remove the ---");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override { value(plain_word("", at(mark))); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases (*name) are not read; write the value out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t,
                const std::string& text) override {
    // yaml-cpp marks quoted scalars with the tag "!", plain ones with "?".
    if (tag == "!") {
      value(Node{.kind = Node::Kind::string, .text = text, .position = at(mark)});
    } else if (tag.empty() || tag == "?") {
      value(plain_word(text, at(mark)));
    } else {
      refuse(mark, fmt::format("tags ({}) are not read; remove it", tag));
    }
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {
    open(Node{.kind = Node::Kind::list, .position = at(mark)}, mark);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {
    open(Node{.kind = Node::Kind::group, .position = at(mark)}, mark);
  }
  void OnMapEnd() override { close(); }

 private:
  /// A list or group whose end has not come, and the key that waits for its value.
  struct Open {
    Node node;
    bool has_key = false;
    std::string key;
    Position key_position;
  };

  Position at(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  [[noreturn]] void refuse(const YAML::Mark& mark, std::string message) const {
    throw Refusal{problem_at(at(mark), "", std::move(message))};
  }

  void open(Node node, const YAML::Mark& mark) {
    if (open_.size() >= static_cast<std::size_t>(kMaxDepth))
      refuse(mark, fmt::format("is nested more than {} deep", kMaxDepth));
    if (!open_.empty() && open_.back().node.kind == Node::Kind::group && !open_.back().has_key)
      refuse(mark, "a list or group stands where a field's name is expected");
    open_.push_back(Open{.node = std::move(node)});
  }

  void close() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    value(std::move(node));
  }

  void value(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.has_key) {
      parent.has_key = true;
      parent.key = std::move(node.text);
      parent.key_position = std::move(node.position);
    } else {
      parent.has_key = false;
      parent.node.members.push_back(
          Member{std::move(parent.key), std::move(parent.key_position), std::move(node)});
    }
  }

  std::string file_;
  bool has_document_ = false;
  std::vector<Open> open_;
  Node root_;
};

}  // namespace

Node read_yaml(std::string_view text, const std::string& file) {
  std::istringstream in{std::string(text)};
  TreeBuilder builder(file);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const Refusal& refusal) {
    throw InputError({refusal.problem});
  } catch (const YAML::Exception& error) {
    const Position position = error.mark.is_null()
                                  ? Position{.file = file}
                                  : Position{file, error.mark.line + 1, error.mark.column + 1};
    const bool has_tabs = text.find("\n\t") != std::string_view::npos;
    throw InputError({problem_at(
        position, "",
        fmt::format("is not YAML: {}{}", error.msg,
                    has_tabs ? "; lines are indented with tabs, where YAML wants spaces" : ""))});
  }
  return builder.take_root();
}

}  // namespace pipeledger
