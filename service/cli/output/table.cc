#include "service/cli/output/table.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "service/base/printable.h"

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

bool IsNumeric(const Cells& rows, size_t column) {
  return rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(),
                                        [&](const auto& row) { return IsNumber(row[column]); });
}

int WidthOf(const Cells& rows, size_t column) {
  int width = 0;
  for (const auto& row : rows) width = std::max(width, TextWidth(row[column]));
  return width;
}

// The text columns to cut, with their new width.
using Cuts = std::map<size_t, int>;

Cuts CutAll(const Cells& rows, int longest) {
  Cuts cuts;
  for (size_t c = 0; c < rows.front().size(); ++c) {
    if (!IsNumeric(rows, c)) cuts[c] = std::min(longest, WidthOf(rows, c));
  }
  return cuts;
}

// The width of the lines.
int WidthOfAll(const Cells& rows, const Cuts& cuts) {
  int width = -kGap;
  for (size_t c = 0; c < rows.front().size(); ++c) {
    const auto cut = cuts.find(c);
    width += kGap + (cut == cuts.end() ? WidthOf(rows, c) : cut->second);
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
  for (const Table::Narrowing& narrowing : narrowings) {
    if (WidthOfAll(*rows, CutAll(*rows, kLongText)) <= width) break;
    Narrow(narrowing, rows);
  }
  int longest = kLongText;
  for (size_t c = 0; c < rows->front().size(); ++c) longest = std::max(longest, WidthOf(*rows, c));
  while (longest > kLongText && WidthOfAll(*rows, CutAll(*rows, longest)) > width) --longest;
  Cuts cuts = CutAll(*rows, longest);
  for (auto& [column, cut] : cuts) {
    while (cut > kShortestText && WidthOfAll(*rows, cuts) > width) --cut;
    for (auto& row : *rows) row[column] = CutMiddle(row[column], cut);
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
  const size_t columns = rows.front().size();
  std::vector<int> widths(columns, 0);
  std::vector<bool> numeric(columns, false);
  for (size_t c = 0; c < columns; ++c) {
    widths[c] = WidthOf(rows, c);
    numeric[c] = IsNumeric(rows, c);
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t c = 0; c < columns; ++c) {
      const std::string padding(widths[c] - TextWidth(rows[r][c]), ' ');
      if (c > 0) line += std::string(kGap, ' ');
      line += numeric[c] ? padding + rows[r][c] : rows[r][c] + padding;
    }
    absl::StripTrailingAsciiWhitespace(&line);
    text += (r == 0 ? terminal.Bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace ranklog::cli
