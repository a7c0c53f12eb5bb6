// Rows as lines of JSON or CSV, for programs.

#ifndef SERVICE_CLI_OUTPUT_ROW_WRITER_H_
#define SERVICE_CLI_OUTPUT_ROW_WRITER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/model/run.h"
#include "service/query/row_reader.h"

namespace ranklog::cli {

// Writes rows one after another, one line each.
class RowWriter {
 public:
  virtual ~RowWriter() = default;
  // Appends the text before the first row, which may be empty.
  virtual void AppendHeader(std::string* out) = 0;
  // `stream` is the stream of a rank's row, and null for a run's row.
  virtual void AppendRow(const query::Row& row, const model::Stream* stream, std::string* out) = 0;
};

// For a run's row:
// {"_step":1,"_timestamp":1700000000.5,"loss":0.5}
// For a rank's row:
// {"rank":0,"stream":"00c0ffee00c0ffee","seq":1,"step":1,"timestamp":1700000000.5,"values":{"loss":0.5}}
std::unique_ptr<RowWriter> NewJsonRowWriter();

// One column for each key of `columns`. Before these come _step and _timestamp, or rank, stream,
// seq, step and timestamp for a rank's rows (`raw`). A missing value is an empty cell.
std::unique_ptr<RowWriter> NewCsvRowWriter(std::vector<std::string> columns, bool raw);

// Collects the keys of rows, each once, in order of first appearance. NewCsvRowWriter needs them in
// advance.
class ColumnCollector {
 public:
  void Add(const query::Row& row);
  std::vector<std::string> Take() { return std::move(columns_); }

 private:
  void AddKey(const std::string& key);

  std::vector<std::string> columns_;
  std::map<std::string, size_t> known_;
  std::map<std::pair<int64_t, uint32_t>, bool> shapes_;  // owner and shape of those seen
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_OUTPUT_ROW_WRITER_H_
