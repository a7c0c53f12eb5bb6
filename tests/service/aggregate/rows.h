// Builders for rows and streams, and readers of batches.

#ifndef TESTS_SERVICE_AGGREGATE_ROWS_H_
#define TESTS_SERVICE_AGGREGATE_ROWS_H_

#include <cmath>
#include <cstdint>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "service/aggregate/run_aggregator.h"
#include "service/model/batch.h"
#include "service/model/run.h"

namespace ranklog::aggregate {

// A row of a rank, with every field that a test may set.
struct RankRow {
  int64_t step = 0;
  uint32_t shape = 1;
  std::vector<double> values = {};
  bool commits = false;
  bool counted = true;  // matters if the row commits
  int64_t time_us = 0;
  std::vector<std::pair<std::string, std::string>> texts = {};
};

// A batch of the rows first, first + 1, ... of a stream.
inline model::Batch BatchOf(uint64_t first, const std::vector<RankRow>& rows) {
  model::Batch batch;
  batch.first = first;
  batch.last = first + rows.size() - 1;
  for (size_t i = 0; i < rows.size(); ++i) {
    const RankRow& row = rows[i];
    model::Block* block = nullptr;
    for (model::Block& other : batch.blocks) {
      if (other.shape == row.shape && other.commits == row.commits &&
          other.counted == (row.commits && row.counted)) {
        block = &other;
      }
    }
    if (block == nullptr) block = &batch.blocks.emplace_back();
    block->shape = row.shape;
    block->commits = row.commits;
    block->counted = row.commits && row.counted;
    block->offsets.push_back(static_cast<uint32_t>(i));
    block->steps.push_back(row.step);
    block->times_us.push_back(row.time_us);
    block->values.insert(block->values.end(), row.values.begin(), row.values.end());
    for (const auto& [key, value] : row.texts) {
      block->texts.push_back({static_cast<uint32_t>(block->rows() - 1), key, value});
    }
  }
  return batch;
}

inline model::Stream StreamOf(int64_t id, uint32_t rank, bool primary) {
  model::Stream stream;
  stream.id = id;
  stream.key.rank = rank;
  stream.primary = primary;
  return stream;
}

// A row of a run, as a reader sees it.
struct RunRow {
  uint64_t index = 0;
  int64_t step = 0;
  int64_t time_us = 0;
  std::vector<std::pair<std::string, double>> numbers;
  std::map<std::string, std::string> texts;
  std::map<std::string, std::string> json;  // values that are JSON text

  double operator[](const std::string& key) const {
    for (const auto& [name, value] : numbers) {
      if (name == key) return value;
    }
    return std::nan("");
  }
  bool Has(const std::string& key) const {
    for (const auto& number : numbers) {
      if (number.first == key) return true;
    }
    return false;
  }
  friend bool operator==(const RunRow&, const RunRow&) = default;
  friend std::ostream& operator<<(std::ostream& out, const RunRow& row) {
    out << "row " << row.index << " step " << row.step << ":";
    for (const auto& [key, value] : row.numbers) out << " " << key << "=" << value;
    return out;
  }
};

// What the store would hold of a run. Collects the results of Advance().
struct StoredRun {
  model::Run run;
  std::vector<std::vector<std::string>> shapes{{}};
  std::vector<RunRow> rows;
  std::vector<RunRow> replays;
  std::vector<model::Rewind> rewinds;
  std::map<int64_t, Aggregated::Consumed> consumed;

  // Returns false if the result is invalid, or does not continue the run.
  bool Store(const Aggregated& result) {
    for (const Aggregated::NewShape& shape : result.shapes) {
      if (shape.id != shapes.size()) return false;
      shapes.push_back(shape.keys);
    }
    for (const model::Batch& batch : result.batches) {
      if (!Append(batch, &run.rows, &rows)) return false;
    }
    for (const model::Batch& batch : result.replays) {
      if (!Append(batch, &run.replays, &replays)) return false;
    }
    rewinds.insert(rewinds.end(), result.rewinds.begin(), result.rewinds.end());
    run.last_step = result.last_step;
    run.furthest_step = result.furthest_step;
    run.attempt = result.attempt;
    run.step_base = result.step_base;
    for (const Aggregated::Consumed& stream : result.consumed) consumed[stream.stream] = stream;
    return true;
  }

 private:
  bool Append(const model::Batch& batch, uint64_t* next, std::vector<RunRow>* to) {
    if (batch.first != *next || !model::Validate(batch).ok()) return false;
    model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t position) {
      RunRow& out = to->emplace_back();
      out.index = position;
      out.step = block.steps[row];
      out.time_us = block.times_us[row];
      for (size_t i = 0; i < block.width(); ++i) {
        out.numbers.emplace_back(shapes[block.shape][i], block.values[row * block.width() + i]);
      }
      for (const model::Text& text : block.texts) {
        if (text.row == row) (text.json ? out.json : out.texts)[text.key] = text.value;
      }
    });
    *next = batch.last + 1;
    return true;
  }
};

}  // namespace ranklog::aggregate

#endif  // TESTS_SERVICE_AGGREGATE_ROWS_H_
