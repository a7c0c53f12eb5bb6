#include "service/deliver/wandb/config_reader.h"

#include <algorithm>

#include "service/aggregate/metric_table.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/config_document.h"

namespace ranklog::deliver::wandb {

absl::StatusOr<absl::optional<ConfigReader::Config>> ConfigReader::Read(
    storage::StoreReader& reader, const model::Run& run, bool expand_globs) {
  ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> fresh,
                   reader.Items(run.id, std::max<int64_t>(items_, 0)));
  lost_rows_ = 0;
  for (const model::Stream& stream : streams) {
    lost_rows_ += stream.losses.total() + stream.late_rows;
  }
  // Keys are needed only if globs must be expanded here.
  std::vector<std::vector<std::string>> shapes;
  if (expand_globs) {
    ASSIGN_OR_RETURN(shapes, reader.RunShapes(run.id));
  }
  if (items_ >= 0 && fresh.empty() && streams.size() == streams_ && shapes.size() == shapes_) {
    return absl::nullopt;
  }
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader.Items(run.id, 0));
  aggregate::MetricTable table;
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind == model::Item::Kind::kMetric) table.Define(stored.item.metric);
  }
  std::vector<std::string> keys;
  for (const auto& shape : shapes) keys.insert(keys.end(), shape.begin(), shape.end());
  items_ = items.empty() ? 0 : items.back().id;
  streams_ = streams.size();
  shapes_ = shapes.size();
  return Config{.document = ConfigDocument(aggregate::RunConfig(run, streams, items),
                                           MetricList(table, expand_globs, keys)),
                .summary = aggregate::SummaryValues(streams, items)};
}

}  // namespace ranklog::deliver::wandb
