#include "service/ui/curves/run_curves.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "service/aggregate/run_config.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"

namespace ranklog::ui {
namespace {

constexpr size_t kBucketsOfAll = 100'000;  // about 6 MB
constexpr size_t kFewestBuckets = 50;
constexpr size_t kRowsOfSample = 8;  // of one batch

// Whether a text of a row is an integer, which is one above 2^53.
bool IsInteger(const model::Text& text, double* value) {
  return text.json && text.value.find_first_not_of("-0123456789") == std::string::npos &&
         absl::SimpleAtod(text.value, value);
}

}  // namespace

absl::Status RunCurves::Update(storage::StoreReader& reader) {
  ASSIGN_OR_RETURN(const model::Run run, reader.GetRun(id_));
  if (run.rows == run_.rows && run.replays == run_.replays && run.last_item == run_.last_item) {
    run_ = run;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<model::Rewind> rewinds, reader.Rewinds(id_));
  std::vector<query::RowRange> ranges;
  if (!begun_ || rewinds.size() != rewinds_) {
    RETURN_IF_ERROR(Begin(reader, run));
    begun_ = true;
    rewinds_ = rewinds.size();
    ASSIGN_OR_RETURN(ranges, query::VisibleRows(reader, run));
  } else {
    RETURN_IF_ERROR(ReadItems(reader, run));
    ASSIGN_OR_RETURN(ranges, query::MadeSince(reader, run_, run));
  }
  for (const query::RowRange& range : ranges) {
    const absl::Status status = query::VisitRunBatches(
        reader, id_, range, [&](const model::Batch& batch, const query::Shapes& shapes) {
          Add(batch, shapes);
          return absl::OkStatus();
        });
    if (!status.ok()) {
      begun_ = false;  // some rows of the range were added: begin again next time
      return status;
    }
  }
  run_ = run;
  return absl::OkStatus();
}

absl::Status RunCurves::Sample(storage::StoreReader& reader, absl::Duration budget) {
  ASSIGN_OR_RETURN(const model::Run run, reader.GetRun(id_));
  RETURN_IF_ERROR(Begin(reader, run));
  ASSIGN_OR_RETURN(const std::vector<query::RowRange> ranges, query::VisibleRows(reader, run));
  uint64_t total = 0;
  for (const query::RowRange& range : ranges) total += range.rows();
  // The rows at 0, 1/2, 1/4, 3/4, 1/8, ... of the run, so that it can stop at any time.
  std::map<uint64_t, model::Batch> batches;  // by position among the visible rows
  query::Shapes shapes;
  const absl::Time end = SteadyNow() + budget;
  for (uint64_t parts = 1; parts <= 4096 && parts <= total && SteadyNow() < end; parts *= 2) {
    for (uint64_t part = parts == 1 ? 0 : 1; part < parts && SteadyNow() < end; part += 2) {
      uint64_t position = total / parts * part;
      const uint64_t visible = position;
      auto range = ranges.begin();
      while (position >= range->rows()) position -= (range++)->rows();
      position += range->begin;
      ASSIGN_OR_RETURN(const query::Batches page, range->replays
                                                      ? reader.ReplayBatches(id_, position, 1)
                                                      : reader.RunBatches(id_, position, 1));
      if (page.empty()) continue;
      const model::Batch& batch = page.front().batch;
      RETURN_IF_ERROR(query::LearnShapes(
          batch, [&] { return reader.RunShapes(id_); }, &shapes));
      const uint64_t first = std::max(batch.first, position);
      const uint64_t last = std::min({batch.last, range->end - 1, first + kRowsOfSample - 1});
      if (first <= last) batches.emplace(visible, model::Part(batch, first, last));
    }
  }
  for (const auto& [position, batch] : batches) {
    model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t) {
      AddRow(block, row, shapes);
    });
  }
  run_ = run;
  return absl::OkStatus();
}

absl::Status RunCurves::Begin(storage::StoreReader& reader, const model::Run& run) {
  names_.clear();
  curves_.clear();
  index_.clear();
  places_.clear();
  texts_.clear();
  definitions_ = aggregate::MetricTable();
  summary_.emplace(&definitions_);
  run_ = model::Run();
  ASSIGN_OR_RETURN(const query::Shapes shapes, reader.RunShapes(id_));
  std::set<std::string> metrics;
  for (const std::vector<std::string>& keys : shapes) metrics.insert(keys.begin(), keys.end());
  buckets_ = std::clamp(kBucketsOfAll / (metrics.size() + 1), kFewestBuckets, most_buckets_);
  return ReadItems(reader, run);
}

absl::Status RunCurves::ReadItems(storage::StoreReader& reader, const model::Run& run) {
  if (run.last_item == run_.last_item) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(id_, 0));
  for (const model::StoredItem& item : items) {
    if (item.item.kind == model::Item::Kind::kMetric) definitions_.Define(item.item.metric);
  }
  return absl::OkStatus();
}

void RunCurves::Add(const model::Batch& batch, const query::Shapes& shapes) {
  summary_->Add(batch, shapes);
  // In the order of the rows, which differs from the order of the blocks.
  model::ForEachRow(
      batch, [&](const model::Block& block, size_t row, uint64_t) { AddRow(block, row, shapes); });
}

size_t RunCurves::CurveOf(const std::string& metric) {
  const auto [found, added] = index_.emplace(metric, curves_.size());
  if (added) {
    curves_.emplace_back(buckets_);
    names_.push_back(metric);
  }
  return found->second;
}

void RunCurves::AddRow(const model::Block& block, size_t row, const query::Shapes& shapes) {
  for (const model::Text& text : model::TextsOf(block, row)) {
    double value = 0;
    if (!IsInteger(text, &value)) continue;
    const size_t place = CurveOf(text.key);
    texts_.insert(place);
    curves_[place].Add({block.steps[row], block.times_us[row], value});
  }
  if (block.shape == 0) return;
  std::vector<size_t>& places = places_[block.shape];
  const std::vector<std::string>& keys = shapes[block.shape];
  for (size_t i = places.size(); i < keys.size(); ++i) places.push_back(CurveOf(keys[i]));
  const double* value = block.values.data() + row * block.width();
  for (const size_t place : places) {
    curves_[place].Add({block.steps[row], block.times_us[row], *value++});
  }
}

std::vector<std::string> RunCurves::MetricsOfTexts() const {
  std::set<size_t> only = texts_;
  for (const auto& [shape, places] : places_) {
    for (const size_t place : places) only.erase(place);
  }
  std::vector<std::string> names;
  for (const size_t place : only) names.push_back(names_[place]);
  return names;
}

const Curve* RunCurves::Find(const std::string& metric) const {
  const auto found = index_.find(metric);
  return found == index_.end() ? nullptr : &curves_[found->second];
}

absl::StatusOr<model::Json> RunCurves::Summary(storage::StoreReader& reader) const {
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(id_));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(id_, 0));
  if (!summary_) return model::Json::object();
  aggregate::RunSummary summary = *summary_;
  for (const aggregate::SummaryValue& value : aggregate::SummaryValues(streams, items)) {
    summary.Set(value);
  }
  return summary.ToJson();
}

}  // namespace ranklog::ui
