#include "base/table.h"

#include <utility>

namespace pipeledger {

Column left(std::string heading, std::size_t width, std::size_t gap) {
  return {std::move(heading), width, gap, true};
}

Column right(std::string heading, std::size_t width, std::size_t gap) {
  return {std::move(heading), width, gap, false};
}

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {
  std::vector<std::string> headings;
  for (const Column& column : columns_) headings.push_back(column.heading);
  add(headings);
}

void TextTable::add(const std::vector<std::string>& cells) {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i >= columns_.size()) {
      text_ += cells[i];
      continue;
    }
    const Column& column = columns_[i];
    text_ += std::string(column.gap, ' ');
    text_ += column.is_left ? fmt::format("{:<{}}", cells[i], column.width)
                            : fmt::format("{:>{}}", cells[i], column.width);
  }
  text_ += '\n';
}

}  // namespace pipeledger
