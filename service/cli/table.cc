#include "service/cli/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"

namespace ranklog::cli {
namespace {

bool IsNumber(const std::string& cell) {
  double ignored;
  return cell == "-" || absl::SimpleAtod(cell, &ignored);
}

}  // namespace

Table::Table(std::vector<std::string> header) { rows_.push_back(std::move(header)); }

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(const Terminal& terminal) const {
  const size_t columns = rows_.front().size();
  std::vector<int> widths(columns, 0);
  std::vector<bool> numeric(columns, rows_.size() > 1);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < columns; ++c) {
      widths[c] = std::max(widths[c], TextWidth(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c])) numeric[c] = false;
    }
  }
  std::string text;
  for (size_t r = 0; r < rows_.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - TextWidth(rows_[r][c]), ' ');
      if (c > 0) line += "  ";
      line += numeric[c] ? padding + rows_[r][c] : rows_[r][c] + padding;
    }
    absl::StripTrailingAsciiWhitespace(&line);
    text += (r == 0 ? terminal.Bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace ranklog::cli
