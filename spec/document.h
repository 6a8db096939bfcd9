// A scenario file as a tree of groups, lists and words, whatever syntax it was written in. Each
// reader makes one; `read_fields` checks it against the schema. So a mistake is described in the
// same words in every syntax.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/override.h"
#include "base/problem.h"

namespace pipeledger {

struct Member;

struct Node {
  enum class Kind {
    nothing,  // null, or a key without a value: as if the field were not written
    word,     // a number, a name, true or false
    string,   // a word in quotes
    list,
    group,
  };
  Kind kind = Kind::nothing;
  std::string text;               // of a word or string
  std::vector<Node> items;        // of a list
  bool is_written_again = false;  // list: a textproto field that stands there several times
  std::vector<Member> members;    // of a group, in file order, duplicates included
  Position position;              // of the value
};

struct Member {
  std::string key;
  Position position;  // of the key
  Node value;
};

/// A deeper text is refused, as one of more than kMaxTextBytes is: no scenario needs it, and
/// hostile ones would.
inline constexpr int kMaxDepth = 32;
inline constexpr std::size_t kMaxFields = 1000;  // of one group, in textproto

/// The root group of a text. Each throws InputError with every problem its syntax lets it find,
/// with line and column. `file` names the text in positions.
Node read_yaml(std::string_view text, const std::string& file);
/// Strict JSON: what YAML would forgive (comments, single quotes, trailing commas) is refused.
Node read_json(std::string_view text, const std::string& file);
/// Protobuf text format, on protobuf's own tokenizer.
Node read_textproto(std::string_view text, const std::string& file);

/// Puts a word at `path` ("train.seq_length"), as if the file had written it there; positions say
/// its place. A path that runs through a list or a value is a Problem, added to `problems`.
void apply_override(Node& root, const Override& change, std::vector<Problem>& problems);

/// The tree as YAML that reads back as the same tree, a field a line.
std::string to_yaml(const Node& root);
/// The same as JSON.
std::string to_json(const Node& root);

/// Reads the text of another program's file, `file` by name, to a group of one section's fields.
/// Throws InputError.
using SectionReader = std::function<Node(std::string_view text, const std::string& file)>;

/// A word as YAML's core schema reads it: null in its spellings becomes Kind::nothing.
Node plain_word(std::string text, const Position& position);

}  // namespace pipeledger
