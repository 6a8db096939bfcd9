#include "shell/arithmetic.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "base/text.h"

namespace pipeledger {
namespace {

constexpr int kMaxDepth = 48;

struct Operator {
  std::string_view sign;
  int rank = 0;  // binds tighter when greater
};
// Longer signs first.
constexpr std::array<Operator, 19> kBinary = {{{"**", 11},
                                               {"<<", 8},
                                               {">>", 8},
                                               {"<=", 7},
                                               {">=", 7},
                                               {"==", 6},
                                               {"!=", 6},
                                               {"&&", 2},
                                               {"||", 1},
                                               {"*", 10},
                                               {"/", 10},
                                               {"%", 10},
                                               {"+", 9},
                                               {"-", 9},
                                               {"<", 7},
                                               {">", 7},
                                               {"&", 5},
                                               {"^", 4},
                                               {"|", 3}}};
constexpr int kTightest = 11;

/// Wraps around as bash's numbers do.
std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

std::int64_t power(std::int64_t base, std::int64_t exponent) {
  std::uint64_t result = 1, factor = bits(base);
  for (std::uint64_t left = bits(exponent); left != 0; left >>= 1, factor *= factor)
    if ((left & 1) != 0) result *= factor;
  return wrap(result);
}

class Evaluator {
 public:
  Evaluator(const ShellText& text, const Letter& at, ShellState& state, bool is_mute, int depth)
      : text_(text), where_(at), state_(state), is_mute_(is_mute), depth_(depth) {}

  ShellNumber whole() {
    skip_blanks();
    if (at_ == text_.size()) return {};
    ShellNumber value = comma();
    if (at_ != text_.size()) refuse();
    return value;
  }

 private:
  [[noreturn]] void refuse() const {
    state_.fail(where_, fmt::format("{} is not a sum that can be worked out",
                                    in_quotes(state_.string_of(text_))));
  }

  void enter() const {
    if (depth_ > kMaxDepth) state_.fail(where_, "a sum is nested too deep");
  }

  char peek(std::size_t ahead = 0) const {
    const std::size_t i = at_ + ahead;
    return i < text_.size() && text_[i].unknown < 0 ? text_[i].value : '\0';
  }

  void skip_blanks() {
    while (at_ < text_.size() && text_[at_].unknown < 0 &&
           std::isspace(static_cast<unsigned char>(text_[at_].value)) != 0)
      ++at_;
  }

  bool take(std::string_view sign) {
    skip_blanks();
    for (std::size_t i = 0; i < sign.size(); ++i)
      if (peek(i) != sign[i]) return false;
    at_ += sign.size();
    return true;
  }

  ShellNumber comma() {
    ShellNumber value = ternary();
    while (take(",")) value = ternary();
    return value;
  }

  ShellNumber ternary() {
    ++depth_;
    enter();
    ShellNumber condition = binary(1);
    if (take("?")) {
      const ShellNumber yes = ternary();
      if (!take(":")) refuse();
      const ShellNumber no = ternary();
      if (condition.unknown < 0) condition = condition.value != 0 ? yes : no;
    }
    --depth_;
    return condition;
  }

  const Operator* binary_operator(int rank) {
    skip_blanks();
    for (const Operator& op : kBinary) {
      bool is_here = true;
      for (std::size_t i = 0; i < op.sign.size(); ++i) is_here = is_here && peek(i) == op.sign[i];
      if (!is_here) continue;
      // An assignment such as += is none of these.
      return op.rank >= rank ? &op : nullptr;
    }
    return nullptr;
  }

  ShellNumber binary(int rank) {
    ++depth_;
    enter();
    ShellNumber left = unary();
    while (const Operator* op = binary_operator(rank)) {
      at_ += op->sign.size();
      // ** is right associative.
      left = combine(op->sign, left, binary(op->rank == kTightest ? kTightest : op->rank + 1));
    }
    --depth_;
    return left;
  }

  ShellNumber combine(std::string_view sign, ShellNumber a, ShellNumber b) const {
    if (a.unknown >= 0) return a;
    const bool is_decided = (sign == "&&" && a.value == 0) || (sign == "||" && a.value != 0);
    if (is_decided) return {a.value != 0 ? 1 : 0};
    if (b.unknown >= 0) return b;
    return {compute(sign, a.value, b.value)};
  }

  std::int64_t compute(std::string_view sign, std::int64_t a, std::int64_t b) const {
    if (sign == "/" || sign == "%") {
      if (b == 0)
        state_.fail(where_, fmt::format("{} divides by zero", in_quotes(state_.string_of(text_))));
      if (b == -1) return sign == "/" ? wrap(0 - bits(a)) : 0;
      return sign == "/" ? a / b : a % b;
    }
    if (sign == "**") {
      if (b < 0) refuse();
      return power(a, b);
    }
    if (sign == "*") return wrap(bits(a) * bits(b));
    if (sign == "+") return wrap(bits(a) + bits(b));
    if (sign == "-") return wrap(bits(a) - bits(b));
    if (sign == "<<") return wrap(bits(a) << (bits(b) & 63));
    if (sign == ">>") return a >> (bits(b) & 63);
    if (sign == "<=") return a <= b;
    if (sign == ">=") return a >= b;
    if (sign == "==") return a == b;
    if (sign == "!=") return a != b;
    if (sign == "<") return a < b;
    if (sign == ">") return a > b;
    if (sign == "&") return a & b;
    if (sign == "|") return a | b;
    if (sign == "^") return a ^ b;
    return sign == "&&" ? (a != 0 && b != 0) : (a != 0 || b != 0);
  }

  ShellNumber unary() {
    ++depth_;
    enter();
    ShellNumber value;
    if (take("++") || take("--")) {
      value = step_before(text_[at_ - 1].value == '+' ? 1 : -1);
    } else if (take("-")) {
      value = unary();
      value.value = wrap(0 - bits(value.value));
    } else if (take("+")) {
      value = unary();
    } else if (take("!")) {
      value = unary();
      value.value = value.value == 0;
    } else if (take("~")) {
      value = unary();
      value.value = ~value.value;
    } else {
      value = operand();
    }
    --depth_;
    return value;
  }

  ShellNumber operand() {
    skip_blanks();
    if (at_ == text_.size()) refuse();
    if (text_[at_].unknown >= 0) return unknown_piece();
    if (take("(")) {
      const ShellNumber value = comma();
      if (!take(")")) refuse();
      return value;
    }
    // Quotes around a number mean nothing here.
    if (take("\"")) {
      const ShellNumber value = comma();
      if (!take("\"")) refuse();
      return value;
    }
    if (std::isdigit(static_cast<unsigned char>(peek())) != 0) return number();
    return variable();
  }

  /// Digits that touch an unknown piece are unknown with it.
  ShellNumber unknown_piece() {
    const std::int32_t unknown = text_[at_].unknown;
    while (at_ < text_.size() &&
           (text_[at_].unknown >= 0 || std::isalnum(static_cast<unsigned char>(peek())) != 0))
      ++at_;
    return {0, unknown};
  }

  ShellNumber number() {
    std::string digits;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0) digits += text_[at_++].value;
    if (at_ < text_.size() && text_[at_].unknown >= 0) return unknown_piece();
    const bool is_hex = digits.starts_with("0x") || digits.starts_with("0X");
    const int base = is_hex ? 16 : digits.size() > 1 && digits[0] == '0' ? 8 : 10;
    const char* begin = digits.data() + (is_hex ? 2 : 0);
    const char* end = digits.data() + digits.size();
    std::int64_t value = 0;
    const auto result = std::from_chars(begin, end, value, base);
    if (result.ec != std::errc() || result.ptr != end) refuse();
    return {value};
  }

  std::string name() {
    std::string name;
    while (std::isalnum(static_cast<unsigned char>(peek())) != 0 || peek() == '_')
      name += text_[at_++].value;
    if (name.empty()) refuse();
    return name;
  }

  ShellNumber value_of(const std::string& name) {
    const ShellText text = state_.text_of(name, where_);
    state_.spend(text.size() + 1, where_);
    enter();
    return Evaluator(text, where_, state_, is_mute_, depth_ + 1).whole();
  }

  void set(const std::string& name, ShellNumber value) {
    if (is_mute_) return;
    ShellText text = letters_of(std::to_string(value.value), where_);
    if (value.unknown >= 0) {
      text.assign(1, where_);
      text[0].value = '\x01';
      text[0].unknown = value.unknown;
    }
    state_.assign(name, ShellValue{{{"0", std::move(text)}}});
  }

  ShellNumber step_before(int step) {
    skip_blanks();
    const std::string variable = name();
    const ShellNumber value = combine("+", value_of(variable), {step});
    set(variable, value);
    return value;
  }

  ShellNumber variable() {
    const std::string variable = name();
    if (take("++") || take("--")) {
      const ShellNumber old = value_of(variable);
      set(variable, combine("+", old, {text_[at_ - 1].value == '+' ? 1 : -1}));
      return old;
    }
    skip_blanks();
    if (peek() == '=' && peek(1) != '=') {
      ++at_;
      const ShellNumber value = ternary();
      set(variable, value);
      return value;
    }
    for (const std::string_view sign : {"+=", "-=", "*=", "/=", "%="}) {
      if (!take(sign)) continue;
      const ShellNumber value = combine(sign.substr(0, 1), value_of(variable), ternary());
      set(variable, value);
      return value;
    }
    return value_of(variable);
  }

  const ShellText& text_;
  const Letter where_;
  ShellState& state_;
  bool is_mute_;
  int depth_;
  std::size_t at_ = 0;
};

}  // namespace

ShellNumber evaluate(const ShellText& expression, const Letter& at, ShellState& state,
                     bool is_mute) {
  return Evaluator(expression, at, state, is_mute, 0).whole();
}

}  // namespace pipeledger
