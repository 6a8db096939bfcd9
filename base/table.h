// A table of text: the columns are said once, for the headings and for every row.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <vector>

namespace pipeledger {

struct Column {
  std::string heading;
  std::size_t width = 0;  // at least: a longer cell pushes what follows it in its row
  std::size_t gap = 2;    // blanks before it; those of the first column indent the table
  bool is_left = false;   // where a shorter cell stands in the column
};

Column left(std::string heading, std::size_t width, std::size_t gap = 2);
Column right(std::string heading, std::size_t width, std::size_t gap = 2);

class TextTable {
 public:
  /// Begins with the line of the headings.
  explicit TextTable(std::vector<Column> columns);

  /// A row of whatever fmt can write. A row of fewer cells than columns ends behind its last; cells
  /// beyond the columns are remarks, which stand behind the row as they are.
  template <class... Cells>
  void row(const Cells&... cells) {
    add({fmt::format("{}", cells)...});
  }
  /// The same for cells of a number that is not known before.
  void add(const std::vector<std::string>& cells);

  /// A line between the rows, without columns.
  void line(std::string_view words) { text_ += fmt::format("{}\n", words); }

  const std::string& text() const { return text_; }

 private:
  std::vector<Column> columns_;
  std::string text_;
};

}  // namespace pipeledger
