// Our text of a schedule, read back into its orders (schedule.h).
#include "schedules/schedule.h"
#include "schedules/tokens.h"

namespace pipeledger {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view file) : file_(file), reader_(file) {}

  void line(int number, std::string_view text) {
    text = text.substr(0, text.find('#'));
    std::size_t at = text.find_first_not_of(kBlanks);
    if (at == std::string_view::npos) return;
    reader_.add_rank();
    while (at != std::string_view::npos) {
      const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
      token(text.substr(at, end - at), number, static_cast<int>(at) + 1);
      at = text.find_first_not_of(kBlanks, end);
    }
  }

  Schedule take() && {
    return std::move(reader_).take("holds no op; write a line a rank: 0F0 0B0");
  }

 private:
  /// An op, or a pair of them: 0F7&7B3.
  void token(std::string_view text, int line, int column) {
    const std::size_t both = text.find('&');
    op(text.substr(0, both), line, column);
    if (both == std::string_view::npos) return;
    reader_.overlap_next();
    op(text.substr(both + 1), line, column + static_cast<int>(both) + 1);
  }

  void op(std::string_view text, int line, int column) {
    std::string message;
    if (const std::optional<Op> op = parse_op(text, message)) return reader_.add(*op);
    reader_.add(Problem{{}, std::move(message), file_, line, column});
  }

  std::string file_;
  OpsReader reader_;
};

}  // namespace

Schedule parse_schedule(std::string_view text, std::string_view file) {
  Parser parser(file);
  for_each_line(text, [&](int number, std::string_view line) { parser.line(number, line); });
  return std::move(parser).take();
}

}  // namespace pipeledger
