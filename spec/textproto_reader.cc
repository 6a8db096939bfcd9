// Protobuf text format: protobuf's tokenizer and its grammar of fields (language guide, "Text
// Format Language Specification"): `name: value`, `name { ... }`, `name: [a, b]`, repeated fields
// written again, strings in pieces, # comments.
#include <fmt/format.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <utility>

#include "spec/document.h"

namespace pipeledger {
namespace {

using google::protobuf::io::ArrayInputStream;
using google::protobuf::io::ErrorCollector;
using google::protobuf::io::Tokenizer;

class Problems : public ErrorCollector {
 public:
  explicit Problems(std::string name) : file(std::move(name)) {}

  void AddError(int line, int column, const std::string& message) override {
    list.push_back(problem_at({file, line + 1, column + 1}, "", "is not textproto: " + message));
  }

  std::string file;
  std::vector<Problem> list;
};

/// Ends the parse; the reason is in Problems.
struct SyntaxError {};

class Parser {
 public:
  Parser(Tokenizer& tokens, Problems& problems) : tokens_(tokens), problems_(problems) {
    tokens_.set_comment_style(Tokenizer::SH_COMMENT_STYLE);
    tokens_.set_allow_multiline_strings(false);
    tokens_.set_require_space_after_number(false);
    tokens_.set_allow_f_after_float(true);
    tokens_.Next();
  }

  Node document() {
    Node root{.kind = Node::Kind::group, .position = here()};
    while (!is_end()) field(root, 1);
    return root;
  }

 private:
  Position here() const {
    return {problems_.file, tokens_.current().line + 1, tokens_.current().column + 1};
  }
  bool is(std::string_view symbol) const { return tokens_.current().text == symbol; }
  bool is_end() const { return tokens_.current().type == Tokenizer::TYPE_END; }
  bool skip(std::string_view symbol) {
    if (!is(symbol) || tokens_.current().type == Tokenizer::TYPE_STRING) return false;
    tokens_.Next();
    return true;
  }
  std::string take() {
    std::string text = tokens_.current().text;
    tokens_.Next();
    return text;
  }
  [[noreturn]] void expected(std::string_view what) {
    const std::string found = is_end() ? "the end of the text" : tokens_.current().text;
    fail(fmt::format("expected {}, found {}", what, found));
  }
  [[noreturn]] void fail(const std::string& message) {
    problems_.AddError(tokens_.current().line, tokens_.current().column, message);
    throw SyntaxError{};
  }

  void field(Node& group, int depth) {
    if (tokens_.current().type != Tokenizer::TYPE_IDENTIFIER) expected("a field's name");
    const Position position = here();
    std::string key = take();
    const bool has_colon = skip(":");
    if (!has_colon && !is("{") && !is("<")) expected("\":\"");
    add(group, std::move(key), position, is("[") ? list(depth) : value(depth));
    if (!skip(",")) skip(";");
  }

  /// A field that is written again grows a list; the schema says later whether it may.
  void add(Node& group, std::string key, const Position& position, Node value) {
    const auto same = std::find_if(group.members.begin(), group.members.end(),
                                   [&](const Member& member) { return member.key == key; });
    if (same == group.members.end()) {
      if (group.members.size() >= kMaxFields)
        fail(fmt::format("a group of more than {} different fields", kMaxFields));
      group.members.push_back(Member{std::move(key), position, std::move(value)});
      return;
    }
    Node& written = same->value;
    if (!written.is_written_again) {
      Node list{.kind = Node::Kind::list, .is_written_again = true, .position = written.position};
      list.items.push_back(std::move(written));
      written = std::move(list);
    }
    written.items.push_back(std::move(value));
  }

  Node list(int depth) {
    Node node{.kind = Node::Kind::list, .position = here()};
    skip("[");
    if (skip("]")) return node;
    do {
      node.items.push_back(value(depth));
    } while (skip(","));
    if (!skip("]")) expected("\",\" or \"]\"");
    return node;
  }

  Node value(int depth) {
    if (is("{") || is("<")) return group(depth + 1);
    Node node{.kind = Node::Kind::word, .position = here()};
    if (tokens_.current().type == Tokenizer::TYPE_STRING) {
      node.kind = Node::Kind::string;
      while (tokens_.current().type == Tokenizer::TYPE_STRING)
        Tokenizer::ParseStringAppend(take(), &node.text);
      return node;
    }
    if (skip("-")) node.text = "-";
    switch (tokens_.current().type) {
      case Tokenizer::TYPE_IDENTIFIER:
      case Tokenizer::TYPE_INTEGER:
      case Tokenizer::TYPE_FLOAT:
        node.text += take();
        return node;
      default:
        expected("a value");
    }
  }

  Node group(int depth) {
    Node node{.kind = Node::Kind::group, .position = here()};
    if (depth > kMaxDepth) fail(fmt::format("nested more than {} deep", kMaxDepth));
    const std::string_view end = take() == "{" ? "}" : ">";
    while (!skip(end)) {
      if (is_end()) expected(fmt::format("\"{}\"", end));
      field(node, depth);
    }
    return node;
  }

  Tokenizer& tokens_;
  Problems& problems_;
};

}  // namespace

Node read_textproto(std::string_view text, const std::string& file) {
  ArrayInputStream stream(text.data(), static_cast<int>(text.size()));
  Problems problems(file);
  Tokenizer tokens(&stream, &problems);
  Node root;
  try {
    root = Parser(tokens, problems).document();
  } catch (const SyntaxError&) {
    // Said in problems.
  }
  if (!problems.list.empty()) throw InputError(problems.list);
  return root;
}

}  // namespace pipeledger
