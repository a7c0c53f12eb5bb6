#include "service/cli/output/row_writer.h"

#include "absl/strings/str_format.h"
#include "service/cli/output/csv.h"
#include "service/deliver/json/json_writer.h"

namespace ranklog::cli {
namespace {

using ShapeKey = std::pair<int64_t, uint32_t>;  // owner, shape

absl::string_view View(const std::string& text) { return {text.data(), text.size()}; }

// As text, because most JSON readers lose the last digits of a 64-bit number.
std::string StreamName(const model::Stream& stream) {
  return absl::StrFormat("%016x", stream.key.incarnation);
}

class JsonFormat : public RowWriter {
 public:
  void AppendHeader(std::string*) override {}

  void AppendRow(const query::Row& row, const model::Stream* stream, std::string* out) override {
    if (stream == nullptr) {
      out->append("{\"_step\":");
      deliver::AppendInteger(row.step(), out);
      out->append(",\"_timestamp\":");
      deliver::AppendSeconds(row.time_us(), out);
      AppendValues(row, /*first=*/false, out);
    } else {
      out->append("{\"rank\":");
      deliver::AppendInteger(stream->key.rank, out);
      out->append(",\"stream\":\"").append(StreamName(*stream)).append("\",\"seq\":");
      deliver::AppendInteger(static_cast<int64_t>(row.position), out);
      out->append(",\"step\":");
      deliver::AppendInteger(row.step(), out);
      out->append(",\"timestamp\":");
      deliver::AppendSeconds(row.time_us(), out);
      out->append(",\"values\":{");
      AppendValues(row, /*first=*/true, out);
      out->push_back('}');
    }
    out->append("}\n");
  }

 private:
  void AppendValues(const query::Row& row, bool first, std::string* out) {
    const std::vector<std::string>& names = NamesOf(row);
    const absl::Span<const double> values = row.values();
    for (size_t i = 0; i < values.size(); ++i) {
      if (!first) out->push_back(',');
      first = false;
      out->append(names[i]);
      deliver::AppendNumber(values[i], out);
    }
    for (const model::Text& text : row.texts()) {
      if (!first) out->push_back(',');
      first = false;
      deliver::AppendString(View(text.key), out);
      out->push_back(':');
      if (text.json) {
        out->append(text.value);
      } else {
        deliver::AppendString(View(text.value), out);
      }
    }
  }

  // The shape's keys in the form `"key":`, escaped once.
  const std::vector<std::string>& NamesOf(const query::Row& row) {
    std::vector<std::string>& names = names_[ShapeKey(row.owner, row.block.shape)];
    if (names.size() != row.keys.size()) {
      names.clear();
      for (const std::string& key : row.keys) {
        deliver::AppendString(View(key), &names.emplace_back());
        names.back().push_back(':');
      }
    }
    return names;
  }

  std::map<ShapeKey, std::vector<std::string>> names_;
};

class CsvFormat : public RowWriter {
 public:
  CsvFormat(std::vector<std::string> columns, bool raw)
      : columns_(std::move(columns)), raw_(raw), cells_(columns_.size()) {
    for (size_t i = 0; i < columns_.size(); ++i) index_[columns_[i]] = i;
  }

  void AppendHeader(std::string* out) override {
    out->append(raw_ ? "rank,stream,seq,step,timestamp" : "_step,_timestamp");
    for (const std::string& column : columns_) {
      out->push_back(',');
      AppendCsvField(View(column), out);
    }
    out->append("\r\n");
  }

  void AppendRow(const query::Row& row, const model::Stream* stream, std::string* out) override {
    if (stream != nullptr) {
      deliver::AppendInteger(stream->key.rank, out);
      out->append(",").append(StreamName(*stream)).append(",");
      deliver::AppendInteger(static_cast<int64_t>(row.position), out);
      out->push_back(',');
    }
    deliver::AppendInteger(row.step(), out);
    out->push_back(',');
    deliver::AppendSeconds(row.time_us(), out);
    FillCells(row);
    for (std::string& cell : cells_) {
      out->push_back(',');
      out->append(cell);
      cell.clear();
    }
    out->append("\r\n");
  }

 private:
  void FillCells(const query::Row& row) {
    const std::vector<size_t>& places = PlacesOf(row);
    const absl::Span<const double> values = row.values();
    for (size_t i = 0; i < values.size(); ++i) deliver::AppendNumber(values[i], &cells_[places[i]]);
    for (const model::Text& text : row.texts()) {
      const auto found = index_.find(text.key);
      if (found == index_.end()) continue;  // cannot happen: the columns come from these rows
      std::string& cell = cells_[found->second];
      cell.clear();
      AppendCsvField(View(text.value), &cell);
    }
  }

  // The columns of the shape's values.
  const std::vector<size_t>& PlacesOf(const query::Row& row) {
    std::vector<size_t>& places = places_[ShapeKey(row.owner, row.block.shape)];
    if (places.size() != row.keys.size()) {
      places.clear();
      for (const std::string& key : row.keys) places.push_back(index_.at(key));
    }
    return places;
  }

  const std::vector<std::string> columns_;
  const bool raw_;
  std::vector<std::string> cells_;  // of the current row, by column; empty between rows
  std::map<std::string, size_t> index_;
  std::map<ShapeKey, std::vector<size_t>> places_;
};

}  // namespace

std::unique_ptr<RowWriter> NewJsonRowWriter() { return std::make_unique<JsonFormat>(); }

std::unique_ptr<RowWriter> NewCsvRowWriter(std::vector<std::string> columns, bool raw) {
  return std::make_unique<CsvFormat>(std::move(columns), raw);
}

void ColumnCollector::Add(const query::Row& row) {
  bool& seen = shapes_[ShapeKey(row.owner, row.block.shape)];
  if (!seen) {
    for (const std::string& key : row.keys) AddKey(key);
    seen = true;
  }
  for (const model::Text& text : row.texts()) AddKey(text.key);
}

void ColumnCollector::AddKey(const std::string& key) {
  if (known_.emplace(key, columns_.size()).second) columns_.push_back(key);
}

}  // namespace ranklog::cli
