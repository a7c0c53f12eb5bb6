#include "service/query/run_digest.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/aggregate/run_config.h"
#include "service/aggregate/run_summary.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/query/main_metrics.h"
#include "service/query/row_reader.h"

namespace ranklog::query {
namespace {

using Updates = std::vector<model::StoredItem>;

// The series of all metrics, indexed by the position of a value in a row.
class SeriesTable {
 public:
  SeriesTable(std::vector<std::string> plotted, int columns, int64_t x_min, int64_t x_max)
      : plotted_(std::move(plotted)), columns_(columns), x_min_(x_min), x_max_(x_max) {}

  void Add(const model::Batch& batch, const Shapes& shapes) {
    // In the order of the rows, which differs from the order of the blocks.
    model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t) {
      if (block.shape == 0) return;
      const std::vector<size_t>& places = PlacesOf(block.shape, shapes[block.shape]);
      const double* value = block.values.data() + row * block.width();
      for (const size_t place : places) metrics_[place].series.Add(block.steps[row], *value++);
    });
  }

  std::vector<RunDigest::Metric> Take() { return std::move(metrics_); }

 private:
  const std::vector<size_t>& PlacesOf(uint32_t shape, const std::vector<std::string>& keys) {
    std::vector<size_t>& places = places_[shape];
    for (size_t i = places.size(); i < keys.size(); ++i) {
      const auto [found, added] = index_.emplace(keys[i], metrics_.size());
      if (added) {
        const bool wide = std::count(plotted_.begin(), plotted_.end(), keys[i]) > 0;
        metrics_.push_back({keys[i], Series(x_min_, x_max_, wide ? columns_ : 1)});
      }
      places.push_back(found->second);
    }
    return places;
  }

  const std::vector<std::string> plotted_;
  const int columns_;
  const int64_t x_min_;
  const int64_t x_max_;
  std::vector<RunDigest::Metric> metrics_;
  std::map<std::string, size_t> index_;
  // By shape: indexes into metrics_, one for each value.
  std::map<uint32_t, std::vector<size_t>> places_;
};

std::vector<std::string> Keys(const Shapes& shapes) {
  std::vector<std::string> keys;
  std::map<std::string, bool> seen;
  for (const std::vector<std::string>& shape : shapes) {
    for (const std::string& key : shape) {
      if (!std::exchange(seen[key], true)) keys.push_back(key);
    }
  }
  return keys;
}

absl::StatusOr<std::vector<std::string>> ChoosePlots(const std::vector<std::string>& keys,
                                                     const aggregate::MetricTable& definitions,
                                                     const DigestOptions& options) {
  if (options.plotted.empty()) return MainMetrics(keys, definitions, options.plots);
  for (const std::string& name : options.plotted) {
    if (std::count(keys.begin(), keys.end(), name) > 0) continue;
    return absl::NotFoundError(
        absl::StrCat("the run has no numbers of a metric '", Printable(name),
                     "'; it has: ", keys.empty() ? "none" : Printable(absl::StrJoin(keys, ", "))));
  }
  return options.plotted;
}

absl::StatusOr<int64_t> FirstStep(storage::StoreReader& reader, const model::Run& run,
                                  const std::vector<RowRange>& ranges) {
  int64_t step = run.last_step;
  if (ranges.empty()) return step;
  RowRange first = ranges.front();
  first.end = first.begin + 1;
  RETURN_IF_ERROR(VisitRunRows(reader, run.id, first, [&](const Row& row) {
    step = row.step();
    return absl::OkStatus();
  }));
  return step;
}

// Adds the numbers of the rows that the run had when the command started.
absl::Status AddRows(storage::StoreReader& reader, const model::Run& run,
                     const std::vector<RowRange>& ranges, aggregate::RunSummary* summary,
                     SeriesTable* table) {
  for (const RowRange& range : ranges) {
    RETURN_IF_ERROR(VisitRunBatches(reader, run.id, range,
                                    [&](const model::Batch& batch, const Shapes& shapes) {
                                      summary->Add(batch, shapes);
                                      table->Add(batch, shapes);
                                      return absl::OkStatus();
                                    }));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunDigest> DigestRun(storage::StoreReader& reader, const model::Run& run,
                                    const DigestOptions& options) {
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  ASSIGN_OR_RETURN(const Updates updates, reader.Items(run.id, /*after_id=*/0));
  ASSIGN_OR_RETURN(const Shapes shapes, reader.RunShapes(run.id));
  aggregate::MetricTable definitions;
  for (const model::StoredItem& update : updates) {
    if (update.item.kind == model::Item::Kind::kMetric) {
      definitions.Define(update.item.metric);
    }
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> plotted,
                   ChoosePlots(Keys(shapes), definitions, options));
  ASSIGN_OR_RETURN(const std::vector<RowRange> ranges, VisibleRows(reader, run));
  ASSIGN_OR_RETURN(const int64_t first_step, FirstStep(reader, run, ranges));

  aggregate::RunSummary summary(&definitions);
  SeriesTable table(plotted, options.columns, first_step, run.last_step);
  RETURN_IF_ERROR(AddRows(reader, run, ranges, &summary, &table));
  for (const aggregate::SummaryValue& value : aggregate::SummaryValues(streams, updates)) {
    summary.Set(value);
  }

  RunDigest digest;
  digest.config = aggregate::RunConfig(run, streams, updates);
  digest.summary = summary.ToJson();
  digest.metrics = table.Take();
  for (const std::string& name : plotted) {
    for (size_t i = 0; i < digest.metrics.size(); ++i) {
      if (digest.metrics[i].name == name) digest.plotted.push_back(i);
    }
  }
  return digest;
}

}  // namespace ranklog::query
