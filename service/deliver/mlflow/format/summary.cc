#include "service/deliver/mlflow/format/summary.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/mlflow/format/description.h"
#include "service/deliver/mlflow/format/names.h"

namespace ranklog::deliver::mlflow {

Summary::Summary(absl::Span<const model::StoredItem> items,
                 absl::Span<const model::Stream> streams) {
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind != model::Item::Kind::kMetric) continue;
    table_.Define(stored.item.metric);
    plain_ &= stored.item.metric.summary.empty();
  }
  for (const aggregate::SummaryValue& value : aggregate::SummaryValues(streams, items)) {
    summary_.Set(value);
    set_by_ranks_.insert(value.key);
    plain_ = false;
  }
}

void Summary::Add(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                  uint64_t to) {
  if (batch.last < next_row || next_row >= to) return;
  const uint64_t last = std::min(batch.last, to - 1);
  summary_.Add(batch.first == next_row && batch.last == last
                   ? batch
                   : model::Part(batch, std::max(batch.first, next_row), last),
               shapes);
  next_row = last + 1;
}

void Summary::Finish(const std::vector<std::vector<std::string>>& shapes, int64_t time_us,
                     Slice* slice, Pairs* tags) const {
  std::set<std::string> metrics;
  for (const std::vector<std::string>& keys : shapes) metrics.insert(keys.begin(), keys.end());
  const auto add_tag = [tags](const std::string& key, const model::Json& value) {
    tags->emplace_back(NameOf(absl::StrCat(kSummaryTag, key)), ValueText(value));
  };
  const model::Json summary = summary_.ToJson();
  const int64_t step = IntegerOf(summary, "_step");
  for (const auto& [key, value] : summary.items()) {
    const bool is_metric = metrics.count(key) > 0;
    const bool is_set = set_by_ranks_.count(key) > 0;
    if (is_metric && value.is_object()) {
      for (const auto& [name, member] : value.items()) {
        if (member.is_number()) {
          AppendPoint(NameOf(absl::StrCat(key, ".", name)), member.get<double>(), time_us, step,
                      slice);
        }
      }
    } else if (!is_metric && is_set && value.is_number()) {
      AppendPoint(NameOf(key), value.get<double>(), time_us, step, slice);
    } else if (is_set) {
      add_tag(key, value);
    }
  }
}

}  // namespace ranklog::deliver::mlflow
