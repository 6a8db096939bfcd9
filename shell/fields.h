// The words that an expansion becomes. For shell/words.cc and parameters.cc alone.
#pragma once

#include <utility>
#include <vector>

#include "shell/words.h"

namespace pipeledger {

inline bool is_shell_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The words that grow while one is read.
class ShellExpander::Fields {
 public:
  Fields(std::vector<ShellField>& done, bool is_splitting, Letter at)
      : done_(done), is_splitting_(is_splitting), at_(at) {}

  void add(Letter letter, bool is_quoted) {
    letter.is_quoted = is_quoted;
    current_.push_back(letter);
    is_begun_ = true;
  }
  /// What an unquoted variable holds falls into words.
  void expansion(const ShellText& text, bool is_quoted) {
    for (const Letter& letter : text) {
      if (is_splitting_ && !is_quoted && letter.unknown < 0 && is_shell_space(letter.value)) {
        split();
      } else {
        add(letter, is_quoted);
      }
    }
  }
  /// Quotes make a word, though an empty one.
  void begin(const Letter& at) {
    if (current_.empty()) at_ = at;
    is_begun_ = true;
  }
  void split() {
    if (!is_splitting_)
      return current_.push_back({.value = ' ', .line = at_.line, .column = at_.column});
    if (is_begun_) done_.push_back({std::move(current_), at_});
    current_.clear();
    is_begun_ = false;
  }
  bool is_begun() const { return is_begun_; }
  bool is_splitting() const { return is_splitting_; }

 private:
  std::vector<ShellField>& done_;
  bool is_splitting_;
  Letter at_;
  ShellText current_;
  bool is_begun_ = false;

  friend class ShellExpander;
};

}  // namespace pipeledger
