#include "service/deliver/wandb/documents/config_reader.h"

#include <algorithm>
#include <utility>

#include "service/aggregate/metric_table.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/documents/config_document.h"

namespace ranklog::deliver::wandb {

absl::StatusOr<absl::optional<ConfigReader::Config>> ConfigReader::Read(
    storage::StoreReader& reader, const model::Run& run, bool expand_globs) {
  ASSIGN_OR_RETURN(std::vector<model::Stream> streams, reader.Streams(run.id));
  const bool streams_changed = streams.size() != streams_.size();
  streams_ = std::move(streams);
  bool hardware_changed = false;
  if (hardware_.empty()) {
    ASSIGN_OR_RETURN(hardware_, reader.Hardware(run.id));
    hardware_changed = !hardware_.empty();
  }
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> fresh,
                   reader.Items(run.id, std::max<int64_t>(items_, 0)));
  lost_rows_ = 0;
  for (const model::Stream& stream : streams_) {
    lost_rows_ += stream.losses.total() + stream.late_rows;
  }
  // Keys are needed only if globs must be expanded here.
  std::vector<std::vector<std::string>> shapes;
  if (expand_globs) {
    ASSIGN_OR_RETURN(shapes, reader.RunShapes(run.id));
  }
  if (items_ >= 0 && fresh.empty() && !streams_changed && !hardware_changed &&
      shapes.size() == shapes_) {
    return absl::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run.id, 0));
  aggregate::MetricTable table;
  std::vector<model::StoredItem> singles;
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind == model::Item::Kind::kMetric) table.Define(stored.item.metric);
    if (stored.item.IsSingle()) singles.push_back(stored);
  }
  std::vector<std::string> keys;
  for (const auto& shape : shapes) keys.insert(keys.end(), shape.begin(), shape.end());
  items_ = items.empty() ? 0 : items.back().id;
  shapes_ = shapes.size();
  model::Json metadata = aggregate::RunMetadata(run, streams_, items);
  if (!metadata.empty()) metadata.update(hardware_);
  return Config{.config = aggregate::RunConfig(run, streams_, items),
                .metrics = MetricList(table, expand_globs, keys, run.settings.imported),
                .metadata = metadata.empty() ? model::Json() : std::move(metadata),
                .summary = aggregate::SummaryValues(streams_, items),
                .preempting = aggregate::IsPreempting(streams_, items),
                .singles = std::move(singles)};
}

}  // namespace ranklog::deliver::wandb
