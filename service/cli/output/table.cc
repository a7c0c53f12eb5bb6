#include "service/cli/output/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "service/base/text/printable.h"

namespace ranklog::cli {
namespace {

using Cells = std::vector<std::vector<std::string>>;

constexpr int kGap = 2;            // between columns
constexpr int kLongText = 24;      // longer texts are cut before a column is removed
constexpr int kShortestText = 10;  // texts are not cut below this

bool IsNumber(const std::string& cell) {
  double ignored;
  return cell == "-" || absl::SimpleAtod(cell, &ignored);
}

struct Column {
  int width = 0;
  bool numeric = false;  // all cells below the header are numbers
};

std::vector<Column> Measure(const Cells& rows) {
  std::vector<Column> columns(rows.front().size());
  for (size_t c = 0; c < columns.size(); ++c) {
    for (const auto& row : rows) columns[c].width = std::max(columns[c].width, TextWidth(row[c]));
    columns[c].numeric =
        rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(),
                                       [c](const auto& row) { return IsNumber(row[c]); });
  }
  return columns;
}

// Shortens the widths of texts. Returns the width of the lines.
int Cut(int longest, std::vector<Column>* columns) {
  int width = -kGap;
  for (Column& column : *columns) {
    if (!column.numeric) column.width = std::min(longest, column.width);
    width += kGap + column.width;
  }
  return width;
}

void Narrow(const Table::Narrowing& narrowing, Cells* rows) {
  const auto& header = rows->front();
  const auto found = std::find(header.begin(), header.end(), narrowing.column);
  if (found == header.end()) return;
  const auto column = found - header.begin();
  for (size_t r = 0; r < rows->size(); ++r) {
    auto& row = (*rows)[r];
    if (narrowing.brief == nullptr) {
      row.erase(row.begin() + column);
    } else if (r > 0) {
      row[column] = narrowing.brief(row[column]);
    }
  }
}

void Fit(int width, const std::vector<Table::Narrowing>& narrowings, Cells* rows) {
  std::vector<Column> columns = Measure(*rows);
  for (const Table::Narrowing& narrowing : narrowings) {
    std::vector<Column> cut = columns;
    if (Cut(kLongText, &cut) <= width) break;
    Narrow(narrowing, rows);
    columns = Measure(*rows);
  }
  int longest = kLongText;
  for (const Column& column : columns) longest = std::max(longest, column.width);
  int total = Cut(longest, &columns);
  while (longest > kLongText && total > width) total = Cut(--longest, &columns);
  for (size_t c = 0; c < columns.size(); ++c) {
    if (columns[c].numeric) continue;
    int& cut = columns[c].width;
    for (; cut > kShortestText && total > width; --total) --cut;
    for (auto& row : *rows) row[c] = CutMiddle(row[c], cut);
  }
}

}  // namespace

Table::Table(std::vector<std::string> header, std::vector<Narrowing> narrowings)
    : narrowings_(std::move(narrowings)) {
  rows_.push_back(std::move(header));
}

void Table::AddRow(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = Printable(cell);
  rows_.push_back(std::move(cells));
}

std::string Table::ToString(const Terminal& terminal) const {
  Cells rows = rows_;
  if (terminal.interactive && !narrowings_.empty() && terminal.width > 0) {
    Fit(terminal.width, narrowings_, &rows);
  }
  const std::vector<Column> columns = Measure(rows);
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns.size(); ++c) {
      const std::string padding(columns[c].width - TextWidth(rows[r][c]), ' ');
      if (c > 0) line += std::string(kGap, ' ');
      line += columns[c].numeric ? padding + rows[r][c] : rows[r][c] + padding;
    }
    absl::StripTrailingAsciiWhitespace(&line);
    text += (r == 0 ? terminal.Bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace ranklog::cli
