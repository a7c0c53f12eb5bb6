#ifndef SERVICE_CLI_TABLE_H_
#define SERVICE_CLI_TABLE_H_

#include <string>
#include <vector>

#include "service/cli/terminal.h"

namespace ranklog::cli {

// Text in columns: a column is as wide as its widest cell; numbers stand to the right.
class Table {
 public:
  // What a column becomes on a terminal that is too narrow for the table.
  struct Narrowing {
    std::string column;                                       // its header
    std::string (*brief)(const std::string& cell) = nullptr;  // null: it goes
  };

  // On a terminal, a table with narrowings is made to fit: first by these, in their order and no
  // more of them than are needed, then by cutting texts in the middle, those to the left before the
  // others. Numbers are never cut. Elsewhere all of it is there.
  explicit Table(std::vector<std::string> header, std::vector<Narrowing> narrowings = {});

  // As many cells as the header has.
  void AddRow(std::vector<std::string> cells);

  // The header and the rows, each ended by a line feed.
  std::string ToString(const Terminal& terminal) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header is the first
  const std::vector<Narrowing> narrowings_;
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_TABLE_H_
