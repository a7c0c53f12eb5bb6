#ifndef SERVICE_CLI_TABLE_H_
#define SERVICE_CLI_TABLE_H_

#include <string>
#include <vector>

#include "service/cli/terminal.h"

namespace ranklog::cli {

// Text in columns: a column is as wide as its widest cell; numbers stand to the right.
class Table {
 public:
  explicit Table(std::vector<std::string> header);

  // As many cells as the header has.
  void AddRow(std::vector<std::string> cells);

  // The header and the rows, each ended by a line feed.
  std::string ToString(const Terminal& terminal) const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the header is the first
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_TABLE_H_
