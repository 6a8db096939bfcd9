// The format `torch-csv`: PyTorch's compute orders.
#include <fmt/format.h>

#include <utility>

#include "schedules/formats.h"
#include "schedules/tokens.h"
#include "schedules/torch_actions.h"

namespace pipeledger {
namespace {

constexpr std::string_view kPairEnd = ")OVERLAP_F_B";

class Reader {
 public:
  explicit Reader(std::string_view file) : file_(file), reader_(file) {}

  void line(int number, std::string_view text) {
    line_ = number;
    if (text.find_first_not_of(kBlanks) == std::string_view::npos) return;
    reader_.add_rank();
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find(',', at), text.size());
      const std::size_t first = text.find_first_not_of(kBlanks, at);
      if (first < end) {
        const std::size_t last = text.find_last_not_of(kBlanks, end - 1);
        cell(text.substr(first, last + 1 - first), static_cast<int>(first) + 1);
      }
      at = end + 1;
    }
  }

  Schedule take() && {
    Schedule schedule = std::move(reader_).take("holds no action; write a line a rank: 0F0,0B0");
    if (has_whole_ || (has_weight_ && !has_input_)) rename(schedule);
    return schedule;
  }

 private:
  /// An action; a pair of them: (0F7;7B3)OVERLAP_F_B.
  void cell(std::string_view text, int column) {
    if (!text.starts_with('(')) return action(text, column);
    const std::size_t both = text.find(';');
    if (both == std::string_view::npos || !text.ends_with(kPairEnd)) return refuse(text, column);
    action(text.substr(1, both - 1), column + 1);
    reader_.overlap_next();
    const std::size_t second = both + 1;
    action(text.substr(second, text.size() - kPairEnd.size() - second),
           column + static_cast<int>(second));
  }

  void action(std::string_view text, int column) {
    std::string_view rest = text;
    const std::optional<int> stage = take_number(rest);
    std::size_t length = 0;
    while (length < rest.size() &&
           (rest[length] == '_' || (rest[length] >= 'A' && rest[length] <= 'Z'))) {
      ++length;
    }
    const std::string_view kind = rest.substr(0, length);
    rest.remove_prefix(length);
    const std::optional<int> microbatch = take_number(rest);
    const std::optional<TorchKind> known = torch_kind(kind);
    if (!stage || !known || !rest.empty() || microbatch.has_value() != known->has_microbatch) {
      return refuse(text, column);
    }
    if (std::max(*stage, microbatch.value_or(0)) >= kMaxOps) {
      return add(column, fmt::format("{} is out of range; the largest number is {}", shown(text),
                                     kMaxOps - 1));
    }
    if (!known->is_compute) return;
    has_whole_ |= kind == "BW";
    has_input_ |= known->op == OpKind::I;
    has_weight_ |= known->op == OpKind::W;
    // BW marks itself by its slice until the file's end tells what its B are.
    reader_.add({{*stage}, known->op, {*microbatch}, kind == "BW" ? 1 : 0});
  }

  void refuse(std::string_view text, int column) {
    add(column, fmt::format("{} is not an action; write stage, F, B, I or W, and microbatch: 0F0",
                            shown(text)));
  }
  void add(int column, std::string message) {
    reader_.add(Problem{{}, std::move(message), file_, line_, column});
  }

  /// The old names: B is an input gradient, BW (slice 1) a whole backward.
  static void rename(Schedule& schedule) {
    schedule.num_slices = 1;
    for (std::vector<Op>& ops : schedule.ops) {
      for (Op& op : ops) {
        if (op.kind == OpKind::B && op.slice == 0) op.kind = OpKind::I;
        op.slice = 0;
      }
    }
  }

  std::string file_;
  int line_ = 0;
  bool has_whole_ = false;   // BW
  bool has_input_ = false;   // I
  bool has_weight_ = false;  // W
  OpsReader reader_;
};

}  // namespace

Schedule read_torch_csv(std::string_view text, std::string_view file) {
  Reader reader(file);
  for_each_line(text, [&](int number, std::string_view line) { reader.line(number, line); });
  return std::move(reader).take();
}

std::string to_torch_csv(const Schedule& schedule) {
  check_torch_has(schedule);
  std::string text;
  for (const std::vector<Op>& ops : schedule.ops) {
    for (std::size_t at = 0; at < ops.size(); ++at) {
      if (at > 0) text += ',';
      text += torch_cell(ops, at);
      if (ops[at].overlaps_next) ++at;
    }
    text += '\n';
  }
  return text;
}

ScheduleFormat torch_csv() {
  return {.name = "torch-csv",
          .summary = "PyTorch's CSV of compute alone",
          .may_be =
              [](std::string_view text) {
                // A comma inside a comment of our text is none of a CSV.
                bool has_comma = false;
                for_each_line(text, [&](int, std::string_view line) {
                  has_comma |= line.substr(0, line.find('#')).find(',') != std::string_view::npos;
                });
                return has_comma;
              },
          .read = read_torch_csv,
          .write = to_torch_csv};
}

}  // namespace pipeledger
