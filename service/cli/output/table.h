#ifndef SERVICE_CLI_OUTPUT_TABLE_H_
#define SERVICE_CLI_OUTPUT_TABLE_H_

#include <string>
#include <vector>

#include "service/cli/output/terminal.h"

namespace ranklog::cli {

// Text in columns. Each column is as wide as its widest cell; numbers are right-aligned.
class Table {
 public:
  // How a column is reduced if the terminal is too narrow for the table.
  struct Narrowing {
    std::string column;                                       // its header
    std::string (*brief)(const std::string& cell) = nullptr;  // null: remove the column
  };

  // On a terminal, a table with narrowings is made to fit. First the narrowings are applied in
  // order, but no more than needed. Then texts are cut in the middle, left columns first. Numbers
  // are never cut. If the output is not a terminal, the whole table is written.
  explicit Table(std::vector<std::string> header, std::vector<Narrowing> narrowings = {});

  // Takes as many cells as the header has.
  void AddRow(std::vector<std::string> cells);

  // The header and the rows, each followed by a line feed.
  std::string ToString(const Terminal& terminal) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header is the first row
  const std::vector<Narrowing> narrowings_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_TABLE_H_
