#include "shell/conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/problem.h"
#include "base/text.h"
#include "shell/arithmetic.h"

namespace pipeledger {
namespace {

using Kind = ShellOutcome::Kind;

ShellOutcome decided(bool is_true) { return {is_true ? Kind::yes : Kind::no, ""}; }

class Test {
 public:
  Test(const std::vector<ShellField>& words, bool is_double, const Letter& at, ShellState& state)
      : words_(words), is_double_(is_double), where_(at), state_(state) {}

  ShellOutcome whole() {
    // [ ] without words is false.
    if (words_.empty()) return decided(false);
    const ShellOutcome outcome = either();
    // What does not parse is false in bash, after a message.
    return next_ == words_.size() ? outcome : decided(false);
  }

 private:
  std::string at(std::size_t i) const {
    return i < words_.size() ? state_.string_of(words_[i].text) : "";
  }
  bool take(std::string_view word) {
    if (next_ >= words_.size() || at(next_) != word) return false;
    ++next_;
    return true;
  }

  ShellOutcome either() {
    ShellOutcome left = both();
    while (take(is_double_ ? "||" : "-o")) {
      const ShellOutcome right = both();
      if (left.kind == Kind::no || (left.kind == Kind::unknown && right.kind == Kind::yes))
        left = right;
    }
    return left;
  }

  ShellOutcome both() {
    ShellOutcome left = negated();
    while (take(is_double_ ? "&&" : "-a")) {
      const ShellOutcome right = negated();
      if (left.kind == Kind::yes || (left.kind == Kind::unknown && right.kind == Kind::no))
        left = right;
    }
    return left;
  }

  ShellOutcome negated() {
    bool is_negated = false;
    while (next_ + 1 < words_.size() && take("!")) is_negated = !is_negated;
    ShellOutcome outcome = primary();
    if (is_negated && outcome.kind != Kind::unknown) outcome = decided(outcome.kind == Kind::no);
    return outcome;
  }

  ShellOutcome primary() {
    if (next_ < words_.size() && at(next_) == "(" && ++depth_ < kMaxShellDepth) {
      ++next_;
      const ShellOutcome inner = either();
      take(")");
      --depth_;
      return inner;
    }
    if (next_ + 2 < words_.size() && is_comparison(at(next_ + 1))) {
      next_ += 3;
      return comparison(words_[next_ - 3], at(next_ - 2), words_[next_ - 1]);
    }
    const std::string word = at(next_);
    if (next_ + 1 < words_.size() && word.size() == 2 && word[0] == '-') {
      next_ += 2;
      return unary(word[1], words_[next_ - 1]);
    }
    if (next_ >= words_.size()) return decided(false);
    // [ -n $X ] where X is empty and unquoted leaves one word.
    return nonempty(words_[next_++]);
  }

  static bool is_comparison(const std::string& word) {
    constexpr std::array<std::string_view, 12> kSigns = {"=",   "==",  "!=",  "-eq", "-ne", "-lt",
                                                         "-le", "-gt", "-ge", "<",   ">",   "=~"};
    return std::find(kSigns.begin(), kSigns.end(), word) != kSigns.end();
  }

  /// The text; a variable that nothing sets is empty, with a note. Nullopt: not known.
  std::optional<ShellText> known(const ShellField& field, ShellOutcome& outcome) {
    ShellText text;
    for (const Letter& letter : field.text) {
      if (letter.unknown < 0) {
        text.push_back(letter);
        continue;
      }
      const ShellState::Unknown unknown = state_.unknowns[static_cast<std::size_t>(letter.unknown)];
      if (!unknown.is_unset) {
        outcome = {Kind::unknown, unknown.why};
        return std::nullopt;
      }
      ++state_.num_emptied;
      state_.note(where_, fmt::format("{}, is taken as empty; --set-env {}=value changes that",
                                      unknown.why, unknown.name));
    }
    return text;
  }

  ShellOutcome nonempty(const ShellField& field) {
    ShellOutcome outcome;
    const std::optional<ShellText> text = known(field, outcome);
    return text ? decided(!text->empty()) : outcome;
  }

  ShellOutcome unary(char test, const ShellField& field) {
    if (test == 'n') return nonempty(field);
    if (test == 'z') {
      const ShellOutcome outcome = nonempty(field);
      return outcome.kind == Kind::unknown ? outcome : decided(outcome.kind == Kind::no);
    }
    if (test == 'v') return decided(state_.find(state_.string_of(field.text)) != nullptr);
    return {Kind::unknown, fmt::format("a test of {}", in_quotes(state_.string_of(field.text)))};
  }

  ShellOutcome comparison(const ShellField& left, const std::string& sign,
                          const ShellField& right) {
    ShellOutcome outcome;
    const std::optional<ShellText> a = known(left, outcome);
    if (!a) return outcome;
    const std::optional<ShellText> b = known(right, outcome);
    if (!b) return outcome;
    if (sign[0] == '-') return numbers(*a, sign, *b);
    const std::string x = state_.string_of(*a), y = state_.string_of(*b);
    if (sign == "<") return decided(x < y);
    if (sign == ">") return decided(x > y);
    if (sign == "=~") return {Kind::unknown, fmt::format("a pattern, {}", in_quotes(y))};
    const bool is_pattern = is_double_ && std::any_of(b->begin(), b->end(),
                                                      [](const Letter& l) { return !l.is_quoted; });
    state_.spend(x.size(), where_);
    const bool is_equal = is_pattern ? matches_pattern(x, y) : x == y;
    return decided(is_equal != (sign == "!="));
  }

  ShellOutcome numbers(const ShellText& a, const std::string& sign, const ShellText& b) {
    // [ "" -gt 1 ] is false in bash, after a message.
    if (a.empty() || b.empty()) return decided(false);
    ShellNumber x, y;
    try {
      x = evaluate(a, where_, state_, true);
      y = evaluate(b, where_, state_, true);
    } catch (const InputError&) {
      return decided(false);  // [ 7B -gt 1 ], after a message
    }
    for (const ShellNumber& number : {x, y})
      if (number.unknown >= 0)
        return {Kind::unknown, state_.unknowns[static_cast<std::size_t>(number.unknown)].why};
    if (sign == "-eq") return decided(x.value == y.value);
    if (sign == "-ne") return decided(x.value != y.value);
    if (sign == "-lt") return decided(x.value < y.value);
    if (sign == "-le") return decided(x.value <= y.value);
    return decided(sign == "-gt" ? x.value > y.value : x.value >= y.value);
  }

  const std::vector<ShellField>& words_;
  bool is_double_;
  const Letter where_;
  ShellState& state_;
  std::size_t next_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellOutcome evaluate_test(const std::vector<ShellField>& words, bool is_double, const Letter& at,
                           ShellState& state) {
  return Test(words, is_double, at, state).whole();
}

}  // namespace pipeledger
