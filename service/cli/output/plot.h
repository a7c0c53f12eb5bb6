// Draws curves with characters.

#ifndef SERVICE_CLI_OUTPUT_PLOT_H_
#define SERVICE_CLI_OUTPUT_PLOT_H_

#include <string>

#include "service/cli/output/terminal.h"
#include "service/query/series.h"

namespace ranklog::cli {

struct PlotSize {
  int width = 72;   // columns, including labels; at least kMinPlotWidth
  int height = 10;  // lines of the curve; at least 2
  // Dots and quotes instead of braille: coarser, but readable on every terminal.
  bool ascii = false;

  // The number of dot columns of a curve. Pass it to Series.
  int dot_columns() const;
};

inline constexpr int kMinPlotWidth = 30;

// The curve between its axes, below a title with the last, the smallest and the largest value.
// `series` must have size.dot_columns() columns.
std::string DrawPlot(const std::string& title, const query::Series& series, const PlotSize& size,
                     const Terminal& terminal);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_PLOT_H_
