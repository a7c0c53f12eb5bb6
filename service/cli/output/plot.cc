#include "service/cli/output/plot.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"

namespace ranklog::cli {
namespace {

constexpr int kLabelWidth = 10;
constexpr int kMargin = kLabelWidth + 2;  // label, a space, and the axis

// A grid of dots, several dots per character.
class Canvas {
 public:
  Canvas(int columns, int lines, bool ascii)
      : ascii_(ascii), columns_(columns), lines_(lines), cells_(columns * lines, 0) {}

  int dots_wide() const { return columns_ * DotsX(ascii_); }
  int dots_high() const { return lines_ * DotsY(ascii_); }
  static int DotsX(bool ascii) { return ascii ? 1 : 2; }
  static int DotsY(bool ascii) { return ascii ? 2 : 4; }

  // (0, 0) is the lower left corner.
  void Set(int x, int y) {
    if (x < 0 || x >= dots_wide() || y < 0 || y >= dots_high()) return;
    const int from_top = dots_high() - 1 - y;
    const int cell = from_top / DotsY(ascii_) * columns_ + x / DotsX(ascii_);
    cells_[cell] |= Bit(x % DotsX(ascii_), from_top % DotsY(ascii_));
  }

  void Line(int x0, int y0, int x1, int y1) {
    const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
    for (int i = 0; i <= steps; ++i) {
      const double part = static_cast<double>(i) / steps;
      Set(x0 + static_cast<int>(std::lround(part * (x1 - x0))),
          y0 + static_cast<int>(std::lround(part * (y1 - y0))));
    }
  }

  std::string TextOfLine(int line) const {
    std::string text;
    for (int c = 0; c < columns_; ++c) text += Glyph(cells_[line * columns_ + c]);
    return text;
  }

 private:
  uint8_t Bit(int x, int y_from_top) const {
    if (ascii_) return 1 << y_from_top;
    // Unicode's numbering of the braille dots, starting at U+2800.
    constexpr std::array<std::array<uint8_t, 4>, 2> kBits = {
        {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}};
    return kBits[x][y_from_top];
  }

  std::string Glyph(uint8_t bits) const {
    if (bits == 0) return " ";
    if (ascii_) return std::string(1, " '.:"[bits]);
    return {'\xE2', static_cast<char>(0xA0 | bits >> 6), static_cast<char>(0x80 | (bits & 0x3F))};
  }

  const bool ascii_;
  const int columns_;
  const int lines_;
  std::vector<uint8_t> cells_;
};

// The values at the lower and the upper edge.
struct Range {
  double low, high;

  explicit Range(const query::Series& series) : low(series.min()), high(series.max()) {
    if (high > low) return;
    const double room = low == 0 ? 1 : std::abs(low) * 0.05;  // draws a constant through the middle
    constexpr double kLargest = std::numeric_limits<double>::max();
    low = std::max(low - room, -kLargest);
    high = std::min(high + room, kLargest);
  }
  // Does not use the difference, which overflows for the largest doubles.
  double At(double part) const { return low * (1 - part) + high * part; }
};

void DrawCurve(const query::Series& series, const Range& range, Canvas& canvas) {
  const auto y_of = [&](double value) {
    // Halves the values before subtracting, so that the largest doubles do not overflow.
    const double part = (value / 2 - range.low / 2) / (range.high / 2 - range.low / 2);
    return static_cast<int>(std::lround(part * (canvas.dots_high() - 1)));
  };
  const query::Series::Column* before = nullptr;
  int before_x = 0;
  for (int x = 0; x < static_cast<int>(series.columns().size()); ++x) {
    const query::Series::Column& column = series.columns()[x];
    if (column.count == 0) continue;
    if (before != nullptr) canvas.Line(before_x, y_of(before->last), x, y_of(column.first));
    canvas.Line(x, y_of(column.min), x, y_of(column.max));
    before = &column;
    before_x = x;
  }
}

// Uses as many digits as needed to distinguish the labels, within the margin.
std::vector<std::string> Labels(const Range& range, const std::vector<double>& parts) {
  std::vector<std::string> labels;
  for (int digits = 4; digits <= 9; ++digits) {
    std::vector<std::string> longer;
    for (const double part : parts) longer.push_back(ShortNumber(range.At(part), digits));
    const bool fits = std::all_of(longer.begin(), longer.end(), [](const std::string& label) {
      return label.size() <= static_cast<size_t>(kLabelWidth);
    });
    if (!fits && !labels.empty()) break;
    labels = std::move(longer);
    if (std::adjacent_find(labels.begin(), labels.end()) == labels.end()) break;
  }
  return labels;
}

std::string Padded(const std::string& text, int width) {
  return std::string(std::max<int>(0, width - static_cast<int>(text.size())), ' ') + text;
}

std::string XAxis(const query::Series& series, int columns, bool ascii) {
  std::string axis(kLabelWidth + 1, ' ');
  axis += ascii ? "+" : "└";
  for (int c = 0; c < columns; ++c) axis += ascii ? "-" : "─";
  const std::string left = absl::StrCat(series.x_min());
  const std::string right = absl::StrCat(series.x_max());
  const std::string middle = "step";
  std::string labels = std::string(kMargin, ' ') + left;
  const int room = columns - static_cast<int>(left.size() + right.size());
  if (room > static_cast<int>(middle.size()) + 2) {
    const int before = (room - static_cast<int>(middle.size())) / 2;
    labels += std::string(before, ' ') + middle +
              std::string(room - before - static_cast<int>(middle.size()), ' ');
  } else {
    labels += std::string(std::max(room, 1), ' ');
  }
  return absl::StrCat(axis, "\n", labels, right, "\n");
}

std::string Title(const std::string& title, const query::Series& series, const Terminal& terminal) {
  std::string text = terminal.Bold(Printable(title));
  if (series.count() > 0) {
    // Uses as many digits as needed to distinguish the smallest value from the largest.
    int digits = 5;
    while (digits < 17 && series.min() < series.max() &&
           ShortNumber(series.min(), digits) == ShortNumber(series.max(), digits)) {
      ++digits;
    }
    absl::StrAppend(&text, "  last ", PlainNumber(series.last(), digits), "  min ",
                    PlainNumber(series.min(), digits), "  max ", PlainNumber(series.max(), digits));
  }
  if (series.not_finite() > 0) {
    absl::StrAppend(&text, "  ", terminal.Red(absl::StrCat(series.not_finite(), " not finite")));
  }
  return text + "\n";
}

}  // namespace

int PlotSize::dot_columns() const { return (width - kMargin) * Canvas::DotsX(ascii); }

std::string DrawPlot(const std::string& title, const query::Series& series, const PlotSize& size,
                     const Terminal& terminal) {
  std::string text = Title(title, series, terminal);
  if (series.count() == 0) return text;
  const int columns = size.width - kMargin;
  const Range range(series);
  Canvas canvas(columns, size.height, size.ascii);
  DrawCurve(series, range, canvas);

  const int middle = (size.height - 1) / 2;
  const double middle_part = 1.0 - static_cast<double>(middle) / (size.height - 1);
  const std::vector<std::string> labels = Labels(range, {1.0, middle_part, 0.0});
  for (int line = 0; line < size.height; ++line) {
    std::string label;
    if (line == 0)
      label = labels[0];
    else if (line == size.height - 1)
      label = labels[2];
    else if (line == middle)
      label = labels[1];
    const char* axis = size.ascii ? "|" : label.empty() ? "│" : "┤";
    absl::StrAppend(&text, Padded(label, kLabelWidth), " ", axis,
                    terminal.Cyan(canvas.TextOfLine(line)), "\n");
  }
  return text + XAxis(series, columns, size.ascii);
}

}  // namespace ranklog::cli
