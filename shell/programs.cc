#include "shell/programs.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <numeric>
#include <regex>
#include <utility>

namespace pipeledger {
namespace {

using Words = std::vector<std::string>;
using Text = std::optional<std::string>;

/// Longer than any launch needs, and short enough for every pattern.
constexpr std::size_t kMaxOutput = 1 << 16;
constexpr std::size_t kMaxMatched = 256;

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  for (std::size_t at; (at = text.find(separator, begin)) != std::string_view::npos; begin = at + 1)
    parts.emplace_back(text.substr(begin, at - begin));
  parts.emplace_back(text.substr(begin));
  return parts;
}

/// Without the last newline's empty line.
std::vector<std::string> lines_of(std::string_view text) {
  if (text.ends_with('\n')) text.remove_suffix(1);
  return text.empty() ? std::vector<std::string>{} : split(text, '\n');
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : std::string(text) + ' ') {
    if (c != ' ' && c != '\t' && c != '\n') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, ""));
    }
  }
  return words;
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) text += separator;
    text += part;
  }
  return text;
}

std::string as_lines(const std::vector<std::string>& lines) {
  return lines.empty() ? "" : joined(lines, "\n") + "\n";
}

std::optional<std::int64_t> whole(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// ---- paths ----

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

Text base_name(const Words& words) {
  if (words.size() < 2 || words.size() > 3 || words[1].starts_with('-')) return std::nullopt;
  const std::string path = without_slashes(words[1]);
  std::string name = path == "/" ? path : path.substr(path.find_last_of('/') + 1);
  if (words.size() == 3 && name.size() > words[2].size() && name.ends_with(words[2]))
    name.resize(name.size() - words[2].size());
  return name + "\n";
}

Text directory_name(const Words& words) {
  if (words.size() != 2 || words[1].starts_with('-')) return std::nullopt;
  const std::string path = without_slashes(words[1]);
  const std::size_t slash = path.find_last_of('/');
  if (slash == std::string::npos) return ".\n";
  return without_slashes(slash == 0 ? "/" : path.substr(0, slash)) + "\n";
}

// ---- numbers ----

Text sequence(const Words& words) {
  std::string separator = "\n";
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-s" && i + 1 < words.size()) {
      separator = words[++i];
    } else if (const auto number = whole(words[i])) {
      numbers.push_back(*number);
    } else {
      return std::nullopt;
    }
  }
  if (numbers.empty() || numbers.size() > 3) return std::nullopt;
  const std::int64_t first = numbers.size() > 1 ? numbers.front() : 1;
  const std::int64_t step = numbers.size() > 2 ? numbers[1] : 1;
  const std::int64_t last = numbers.back();
  constexpr std::int64_t kFar = 1 << 30;
  if (step == 0 || std::max({std::abs(first), std::abs(step), std::abs(last)}) > kFar)
    return std::nullopt;
  std::vector<std::string> parts;
  for (std::int64_t i = first; step > 0 ? i <= last : i >= last; i += step) {
    parts.push_back(std::to_string(i));
    if (parts.size() > 10'000) return std::nullopt;
  }
  return parts.empty() ? "" : joined(parts, separator) + "\n";
}

/// bc's four operations over decimals: products and quotients cut to the scale.
class Bc {
 public:
  explicit Bc(std::string_view text) : text_(text) {}

  Text run() {
    std::string out;
    for (const std::string& statement : statements()) {
      const std::size_t first = statement.find_first_not_of(" \t");
      if (first == std::string::npos) continue;
      const std::string rest = statement.substr(first);
      if (rest.starts_with("scale=")) {
        const auto scale = whole(rest.substr(6));
        if (!scale || *scale < 0 || *scale > 9) return std::nullopt;
        scale_ = static_cast<int>(*scale);
        continue;
      }
      expression_ = rest;
      at_ = 0;
      is_wrong_ = false;
      const Number number = sum();
      blanks();
      if (is_wrong_ || at_ != expression_.size()) return std::nullopt;
      out += print(number) + "\n";
    }
    return out;
  }

 private:
  /// value / 10^digits.
  struct Number {
    std::int64_t value = 0;
    int digits = 0;
  };

  std::vector<std::string> statements() const {
    std::vector<std::string> all;
    for (const std::string& line : lines_of(text_))
      for (std::string& statement : split(line, ';')) all.push_back(std::move(statement));
    return all;
  }
  void blanks() {
    while (at_ < expression_.size() && expression_[at_] == ' ') ++at_;
  }
  bool takes(char c) {
    blanks();
    if (at_ >= expression_.size() || expression_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::int64_t times(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    if (__builtin_mul_overflow(a, b, &product)) is_wrong_ = true;
    return product;
  }
  std::int64_t plus(std::int64_t a, std::int64_t b) {
    std::int64_t total = 0;
    if (__builtin_add_overflow(a, b, &total)) is_wrong_ = true;
    return total;
  }
  std::int64_t power(int digits) {
    std::int64_t value = 1;
    while (digits-- > 0 && !is_wrong_) value = times(value, 10);
    return value;
  }
  Number cut(const Number& number, int digits) {
    if (number.digits <= digits) return number;
    return {number.value / power(number.digits - digits), digits};
  }
  Number sum() {
    Number left = product();
    for (;;) {
      const bool adds = takes('+');
      if (!adds && !takes('-')) return left;
      const Number right = product();
      const int digits = std::max(left.digits, right.digits);
      const std::int64_t a = times(left.value, power(digits - left.digits));
      const std::int64_t b = times(right.value, power(digits - right.digits));
      left = {plus(a, adds ? b : times(b, -1)), digits};
      if (is_wrong_) return {};
    }
  }
  Number product() {
    Number left = atom();
    for (;;) {
      const bool multiplies = takes('*');
      if (!multiplies && !takes('/')) return left;
      const Number right = atom();
      if (!multiplies && right.value == 0) is_wrong_ = true;
      if (is_wrong_) return {};
      if (multiplies) {
        const int most = std::max({scale_, left.digits, right.digits});
        left = cut({times(left.value, right.value), left.digits + right.digits}, most);
      } else {
        const std::int64_t scaled = times(left.value, power(right.digits + scale_));
        left = {scaled / times(right.value, power(left.digits)), scale_};
      }
      if (is_wrong_) return {};
    }
  }
  Number atom() {
    if (++depth_ > 64) is_wrong_ = true;
    if (is_wrong_) return {};
    if (takes('-')) {
      const Number number = atom();
      return {times(number.value, -1), number.digits};
    }
    if (takes('(')) {
      const Number number = sum();
      if (!takes(')')) is_wrong_ = true;
      return number;
    }
    blanks();
    Number number;
    bool has_digit = false, is_fraction = false;
    for (; at_ < expression_.size(); ++at_) {
      const char c = expression_[at_];
      if (c == '.' && !is_fraction) {
        is_fraction = true;
      } else if (c >= '0' && c <= '9') {
        has_digit = true;
        number.value = plus(times(number.value, 10), c - '0');
        if (is_fraction) ++number.digits;
        if (is_wrong_) return {};
      } else {
        break;
      }
    }
    if (!has_digit) is_wrong_ = true;
    return number;
  }
  static std::string print(const Number& number) {
    const bool is_negative = number.value < 0;
    std::string digits =
        std::to_string(static_cast<std::int64_t>(is_negative ? -number.value : number.value));
    std::string text = digits;
    if (number.digits > 0) {
      const auto point = static_cast<std::size_t>(number.digits);
      if (digits.size() < point) digits.insert(0, point - digits.size(), '0');
      text = digits.substr(0, digits.size() - point) + "." + digits.substr(digits.size() - point);
    }
    return (is_negative ? "-" : "") + text;
  }

  std::string_view text_;
  std::string expression_;
  std::size_t at_ = 0;
  int scale_ = 0;
  int depth_ = 0;
  bool is_wrong_ = false;
};

// ---- printf ----

/// \n and \t where they stand in a text.
std::string unescaped(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
    if (c != 'n' && c != 't' && c != '\\' && c != '"') out.insert(out.size() - 1, 1, '\\');
  }
  return out;
}

/// %s and %d with a width; the format is used again while words are left.
Text print_formatted(const Words& words) {
  if (words.size() < 2 || words[1].starts_with('-')) return std::nullopt;
  const std::string format = unescaped(words[1]);
  std::string out;
  std::size_t next = 2;
  do {
    const std::size_t before = next;
    for (std::size_t i = 0; i < format.size(); ++i) {
      if (format[i] != '%') {
        out += format[i];
        continue;
      }
      if (++i < format.size() && format[i] == '%') {
        out += '%';
        continue;
      }
      const bool has_zeros = i < format.size() && format[i] == '0';
      std::size_t width = 0;
      for (; i < format.size() && format[i] >= '0' && format[i] <= '9' && width < 1000; ++i)
        width = width * 10 + static_cast<std::size_t>(format[i] - '0');
      if (i >= format.size() || (format[i] != 's' && format[i] != 'd')) return std::nullopt;
      std::string value = next < words.size() ? words[next] : format[i] == 'd' ? "0" : "";
      ++next;
      if (format[i] == 'd' && !whole(value)) return std::nullopt;
      if (value.size() < width) value.insert(0, width - value.size(), has_zeros ? '0' : ' ');
      out += value;
    }
    if (next == before) break;
  } while (next < words.size() && out.size() < kMaxOutput);
  return out;
}

// ---- filters ----

/// The value of a one-letter option, "-n5" or "-n 5"; whether it was there.
bool takes_option(const Words& words, std::size_t& i, std::string_view option, std::string& value) {
  if (!words[i].starts_with(option)) return false;
  if (words[i].size() > option.size()) return value = words[i].substr(option.size()), true;
  if (i + 1 >= words.size()) return false;
  return value = words[++i], true;
}

Text head_or_tail(const Words& words, const std::string& input, bool is_head) {
  std::string count = "10";
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (takes_option(words, i, "-n", count)) continue;
    if (words[i].size() < 2 || words[i][0] != '-' || !whole(words[i].substr(1)))
      return std::nullopt;
    count = words[i].substr(1);
  }
  const auto number = whole(count);
  if (!number || *number < 0) return std::nullopt;
  std::vector<std::string> lines = lines_of(input);
  const std::size_t n = std::min(lines.size(), static_cast<std::size_t>(*number));
  if (is_head) {
    lines.resize(n);
  } else {
    lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(n));
  }
  return as_lines(lines);
}

Text count_of(const Words& words, const std::string& input) {
  if (words.size() != 2) return std::nullopt;
  if (words[1] == "-w") return fmt::format("{}\n", words_of(input).size());
  if (words[1] == "-l") return fmt::format("{}\n", std::count(input.begin(), input.end(), '\n'));
  if (words[1] == "-c") return fmt::format("{}\n", input.size());
  return std::nullopt;
}

/// "2", "1,3", "2-4", "2-": which of `size` places.
std::optional<std::vector<std::size_t>> places(const std::string& list, std::size_t size) {
  std::vector<std::size_t> chosen;
  for (const std::string& item : split(list, ',')) {
    const std::size_t dash = item.find('-');
    const std::string first = item.substr(0, dash);
    const std::string last = dash == std::string::npos ? first : item.substr(dash + 1);
    const auto begin = first.empty() ? std::optional<std::int64_t>(1) : whole(first);
    const auto end = last.empty() ? std::optional(static_cast<std::int64_t>(size)) : whole(last);
    if (!begin || !end || *begin < 1) return std::nullopt;
    for (std::int64_t i = *begin; i <= std::min(*end, static_cast<std::int64_t>(size)); ++i)
      chosen.push_back(static_cast<std::size_t>(i - 1));
  }
  std::sort(chosen.begin(), chosen.end());
  chosen.erase(std::unique(chosen.begin(), chosen.end()), chosen.end());
  return chosen;
}

Text cut(const Words& words, const std::string& input) {
  std::string delimiter = "\t", fields, letters;
  for (std::size_t i = 1; i < words.size(); ++i)
    if (!takes_option(words, i, "-d", delimiter) && !takes_option(words, i, "-f", fields) &&
        !takes_option(words, i, "-c", letters))
      return std::nullopt;
  if (delimiter.size() != 1 || fields.empty() == letters.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (const std::string& line : lines_of(input)) {
    if (!letters.empty()) {
      const auto chosen = places(letters, line.size());
      if (!chosen) return std::nullopt;
      std::string kept;
      for (const std::size_t i : *chosen) kept += line[i];
      out.push_back(kept);
      continue;
    }
    const std::vector<std::string> parts = split(line, delimiter[0]);
    const auto chosen = places(fields, parts.size());
    if (!chosen) return std::nullopt;
    std::vector<std::string> kept;
    for (const std::size_t i : *chosen) kept.push_back(parts[i]);
    // A line without the delimiter passes whole.
    out.push_back(parts.size() == 1 ? line : joined(kept, delimiter));
  }
  return as_lines(out);
}

/// "a-c" and [:upper:] written out; nullopt for what is not read.
std::optional<std::string> letters_of_set(const std::string& set) {
  struct Class {
    std::string_view name, range;
  };
  constexpr std::array kClasses = {Class{"[:upper:]", "A-Z"}, Class{"[:lower:]", "a-z"},
                                   Class{"[:digit:]", "0-9"}, Class{"[:space:]", " \t\n"}};
  for (const Class& known : kClasses)
    if (set == known.name) return letters_of_set(std::string(known.range));
  if (set.find("[:") != std::string::npos) return std::nullopt;
  const std::string plain = unescaped(set);
  std::string out;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (i + 2 < plain.size() && plain[i + 1] == '-' && plain[i] <= plain[i + 2]) {
      for (char c = plain[i]; c < plain[i + 2]; ++c) out += c;
      i += 1;
    } else {
      out += plain[i];
    }
  }
  return out;
}

Text translate(const Words& words, const std::string& input) {
  const bool deletes = words.size() == 3 && words[1] == "-d";
  const bool squeezes = words.size() == 3 && words[1] == "-s";
  if (words.size() != 3) return std::nullopt;
  const auto from = letters_of_set(words[deletes || squeezes ? 2 : 1]);
  const auto to = letters_of_set(words[2]);
  if (!from || !to || from->empty() || to->empty()) return std::nullopt;
  std::string out;
  for (const char c : input) {
    const std::size_t at = from->find(c);
    if (at == std::string::npos) {
      out += c;
    } else if (squeezes) {
      if (out.empty() || out.back() != c) out += c;
    } else if (!deletes) {
      out += (*to)[std::min(at, to->size() - 1)];
    }
  }
  return out;
}

/// Whether std::regex reads it as sed does: no \w or \+ of GNU's. Two repeats at most: with more,
/// matching may take for ever.
bool is_portable(const std::string& pattern, bool is_extended) {
  int repeats = 0;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '*' || c == '+' || c == '{') ++repeats;
    if (c != '\\') continue;
    if (++i == pattern.size()) return false;
    const std::string_view gnu = is_extended ? "" : "+?|";
    const bool is_letter = std::isalpha(static_cast<unsigned char>(pattern[i])) != 0;
    if (is_letter || gnu.find(pattern[i]) != std::string_view::npos) return false;
  }
  return repeats <= 2;
}

/// s/pattern/text/flags with any mark.
Text substitute(const std::string& script, const std::string& line, bool is_extended) {
  if (script.size() < 4 || script[0] != 's') return std::nullopt;
  const char mark = script[1];
  std::vector<std::string> parts(1);
  for (std::size_t i = 2; i < script.size(); ++i) {
    if (script[i] == '\\' && i + 1 < script.size()) {
      if (script[i + 1] != mark) parts.back() += '\\';
      parts.back() += script[++i];
    } else if (script[i] == mark) {
      parts.emplace_back();
    } else {
      parts.back() += script[i];
    }
  }
  if (parts.size() != 3 || parts[0].empty() || parts[0].size() > 100) return std::nullopt;
  if (parts[2] != "" && parts[2] != "g") return std::nullopt;
  if (!is_portable(parts[0], is_extended) || parts[1].find_first_of("$&") != std::string::npos ||
      line.size() > kMaxMatched)
    return std::nullopt;
  std::string with;
  for (std::size_t i = 0; i < parts[1].size(); ++i) {
    const bool is_escape = parts[1][i] == '\\' && i + 1 < parts[1].size();
    if (is_escape && parts[1][i + 1] >= '1' && parts[1][i + 1] <= '9') {
      with += '$';
      with += parts[1][++i];
    } else {
      with += parts[1][is_escape ? ++i : i];
    }
  }
  try {
    const std::regex pattern(parts[0], is_extended ? std::regex::extended : std::regex::basic);
    return std::regex_replace(line, pattern, with,
                              parts[2] == "g" ? std::regex_constants::format_default
                                              : std::regex_constants::format_first_only);
  } catch (const std::regex_error&) {
    return std::nullopt;
  }
}

Text edit_stream(const Words& words, const std::string& input) {
  std::vector<std::string> scripts;
  bool is_extended = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-E" || words[i] == "-r") {
      is_extended = true;
    } else if (words[i] == "-e" && i + 1 < words.size()) {
      scripts.push_back(words[++i]);
    } else if (scripts.empty() && !words[i].starts_with('-')) {
      scripts.push_back(words[i]);
    } else {
      return std::nullopt;
    }
  }
  if (scripts.empty()) return std::nullopt;
  std::vector<std::string> out;
  for (std::string line : lines_of(input)) {
    for (const std::string& script : scripts) {
      const Text edited = substitute(script, line, is_extended);
      if (!edited || edited->size() > kMaxOutput) return std::nullopt;
      line = *edited;
    }
    out.push_back(line);
  }
  return as_lines(out);
}

/// {print $2}, {print $1, $NF}: fields of every line.
Text print_fields(const Words& words, const std::string& input) {
  std::string separator, program;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (takes_option(words, i, "-F", separator)) continue;
    if (!program.empty()) return std::nullopt;
    program = words[i];
  }
  std::string body;
  for (const char c : program)
    if (c != ' ' && c != ';') body += c;
  if (!body.starts_with("{print$") || !body.ends_with("}") || separator.size() > 1)
    return std::nullopt;
  body = body.substr(6, body.size() - 7);
  std::vector<std::string> out;
  for (const std::string& line : lines_of(input)) {
    const std::vector<std::string> fields =
        separator.empty() ? words_of(line) : split(line, separator[0]);
    std::vector<std::string> chosen;
    for (const std::string& item : split(body, ',')) {
      if (item == "$NF") {
        chosen.push_back(fields.empty() ? "" : fields.back());
        continue;
      }
      const auto number = item.starts_with('$') ? whole(item.substr(1)) : std::nullopt;
      if (!number || *number < 0) return std::nullopt;
      const auto i = static_cast<std::size_t>(*number);
      chosen.push_back(i == 0 ? line : i <= fields.size() ? fields[i - 1] : "");
    }
    out.push_back(joined(chosen, " "));
  }
  return as_lines(out);
}

Text sorted(const Words& words, const std::string& input, bool is_unique) {
  if (words.size() != 1) return std::nullopt;
  std::vector<std::string> lines = lines_of(input);
  if (is_unique) {
    lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  } else {
    std::sort(lines.begin(), lines.end());
  }
  return as_lines(lines);
}

Text filtered(const Words& words, const std::string& input) {
  const std::string& program = words[0];
  if (program == "cat") return words.size() == 1 ? Text(input) : std::nullopt;
  if (program == "xargs")
    return words.size() == 1 ? Text(joined(words_of(input), " ") + "\n") : std::nullopt;
  if (program == "bc")
    return words.size() == 1 || (words.size() == 2 && words[1] == "-q") ? Bc(input).run()
                                                                        : std::nullopt;
  if (program == "cut") return cut(words, input);
  if (program == "tr") return translate(words, input);
  if (program == "sed") return edit_stream(words, input);
  if (program == "awk") return print_fields(words, input);
  if (program == "wc") return count_of(words, input);
  if (program == "head" || program == "tail") return head_or_tail(words, input, program == "head");
  if (program == "sort" || program == "uniq") return sorted(words, input, program == "uniq");
  return std::nullopt;
}

}  // namespace

std::optional<std::string> program_output(const std::vector<std::string>& words,
                                          const std::optional<std::string>& input) {
  if (words.empty()) return std::nullopt;
  if (words[0] == "basename") return base_name(words);
  if (words[0] == "dirname") return directory_name(words);
  if (words[0] == "seq") return sequence(words);
  if (words[0] == "printf") return print_formatted(words);
  if (!input || input->size() > kMaxOutput) return std::nullopt;
  return filtered(words, *input);
}

}  // namespace pipeledger
