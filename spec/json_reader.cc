// JSON: nlohmann-json says whether it is JSON, yaml-cpp (JSON is a subset of YAML) says where
// everything stands, which nlohmann-json does not.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "spec/document.h"

namespace pipeledger {
namespace {

/// Keeps the first error and where it is; the values are read elsewhere.
class Syntax : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::string message;
  std::size_t error_byte = 0;  // 1-based, of the byte last read

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool key(string_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t byte, const std::string&,
                   const nlohmann::detail::exception& error) override {
    message = "is not JSON: " + reason(error.what());
    error_byte = byte;
    return false;
  }

 private:
  /// "[json.exception...] parse error at line 1, column 2: syntax error while ... - reason": the
  /// place is said by the problem itself.
  static std::string reason(std::string_view what) {
    const std::size_t colon = what.find(": ");
    return std::string(colon == std::string_view::npos ? what : what.substr(colon + 2));
  }
};

Position position_of_byte(std::string_view text, std::size_t byte, const std::string& file) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0: the first line
  const auto lines = std::count(before.begin(), before.end(), '\n');
  return {file, static_cast<int>(lines) + 1, static_cast<int>(before.size() - line_start) + 1};
}

}  // namespace

Node read_json(std::string_view text, const std::string& file) {
  Syntax syntax;
  if (!nlohmann::json::sax_parse(text, &syntax))
    throw InputError(
        {problem_at(position_of_byte(text, syntax.error_byte, file), "", syntax.message)});
  // JSON indents with tabs as it likes, YAML does not; inside a JSON string no raw tab can stand.
  std::string spaced(text);
  std::replace(spaced.begin(), spaced.end(), '\t', ' ');
  return read_yaml(spaced, file);
}

}  // namespace pipeledger
