#include "service/deliver/mlflow/format/points.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/span.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/mlflow/api.h"
#include "service/deliver/mlflow/format/names.h"
#include "service/model/json_text.h"

namespace ranklog::deliver::mlflow {
namespace {

bool IsOwnColumn(absl::string_view key) {
  return key == "_step" || key == "_timestamp" || key == "_runtime";
}

// False: there is a value that is not a number.
bool VisitNumbers(const std::string& name, const model::Json& value,
                  absl::FunctionRef<void(const std::string&, double)> fn) {
  if (value.is_boolean()) {
    fn(NameOf(name), value.get<bool>() ? 1 : 0);
  } else if (value.is_number()) {
    fn(NameOf(name), value.get<double>());
  } else if (value.is_object() && !value.contains("_type")) {
    bool all = true;
    for (const auto& [key, member] : value.items()) {
      all &= VisitNumbers(absl::StrCat(name, ".", key), member, fn);
    }
    return all;
  } else {
    return false;
  }
  return true;
}

// W&B's names, as samples have them, and those of MLflow's own system metrics. The unit of samples is
// `unit` of MLflow's.
struct SystemMetric {
  absl::string_view theirs;
  absl::string_view ours;
  double unit = 1;
};
constexpr double kByte = 1e-6;  // a megabyte is the unit of MLflow
constexpr SystemMetric kOfNode[] = {
    {"cpu", "cpu_utilization_percentage"},
    {"memory_percent", "system_memory_usage_percentage"},
    {"disk./.usagePercent", "disk_usage_percentage"},
    {"network.recv", "network_receive_megabytes", kByte},
    {"network.sent", "network_transmit_megabytes", kByte},
};
constexpr SystemMetric kOfGpu[] = {
    {"gpu", "utilization_percentage"},
    {"memoryAllocated", "memory_usage_percentage"},
    {"memoryAllocatedBytes", "memory_usage_megabytes", kByte},
    {"powerWatts", "power_usage_watts"},
    {"powerPercent", "power_usage_percentage"},
};

const SystemMetric* Find(absl::Span<const SystemMetric> metrics, absl::string_view name) {
  const auto found = std::find_if(metrics.begin(), metrics.end(), [&](const SystemMetric& metric) {
    return metric.theirs == name;
  });
  return found == metrics.end() ? nullptr : &*found;
}

}  // namespace

void AppendPoint(const std::string& name, double value, int64_t time_us, int64_t step,
                 Slice* slice) {
  std::string& out = std::isnan(value) ? slice->nan : slice->finite;
  out += out.empty() ? "{\"key\":" : ",{\"key\":";
  AppendString(name, &out);
  out += ",\"value\":";
  // Bare words would end the server's reading of the request.
  if (std::isfinite(value)) {
    AppendNumber(value, &out);
  } else {
    out += std::isnan(value) ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  }
  out += ",\"timestamp\":";
  AppendInteger(std::max<int64_t>(ToMs(time_us), 0), &out);
  out += ",\"step\":";
  AppendInteger(step, &out);
  out += '}';
  ++slice->points;
}

std::string MetricsBody(absl::string_view run_id, const std::string& points) {
  if (points.empty()) return "";
  std::string body = absl::StrCat("{\"metrics\":[", points, "],\"run_id\":");
  AppendString(run_id, &body);
  return body + "}";
}

double StoredValue(double value) {
  constexpr double kMost = std::numeric_limits<double>::max();
  return std::isinf(value) ? std::copysign(kMost, value) : value;
}

int64_t RowPoints::StepOf(const model::Block& block, size_t row) const {
  const int64_t step = block.steps[row];
  if (replays_through_ < 0) return step;
  if (block.counted) return step + replays_through_ + 1;
  return step <= replays_through_ ? -1 : step;
}

const std::vector<std::string>& RowPoints::NamesOf(
    uint32_t shape, const std::vector<std::vector<std::string>>& shapes) {
  const auto [found, is_new] = names_.try_emplace(shape);
  if (!is_new || shape >= shapes.size()) return found->second;
  for (const std::string& key : shapes[shape]) {
    found->second.push_back(imported_ && IsOwnColumn(key) ? "" : NameOf(key));
  }
  return found->second;
}

bool RowPoints::Visit(const model::Block& block, size_t row,
                      const std::vector<std::vector<std::string>>& shapes,
                      absl::FunctionRef<void(const std::string&, double)> fn) {
  const std::vector<std::string>& names = NamesOf(block.shape, shapes);
  const size_t width = block.width();
  if (names.size() == width) {
    for (size_t i = 0; i < width; ++i) {
      if (!names[i].empty()) fn(names[i], block.values[row * width + i]);
    }
  }
  bool all = true;
  for (const model::Text& text : model::TextsOf(block, row)) {
    if (imported_ && IsOwnColumn(text.key)) continue;
    const bool whole = text.json && VisitNumbers(text.key, model::ParseJsonText(text.value), fn);
    if (!whole) unsent_.insert(text.key);
    all &= whole;
  }
  return all;
}

void RowPoints::Append(const model::Batch& batch,
                       const std::vector<std::vector<std::string>>& shapes, uint64_t to,
                       size_t max_points, Slice* slice) {
  bool full = false;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t position) {
    if (full || position != slice->next_row || position >= to) return;
    const int64_t step = StepOf(block, row);
    uint64_t point = 0;
    if (step >= 0 || replays_through_ < 0) {
      Visit(block, row, shapes, [&](const std::string& name, double value) {
        if (point++ < slice->next_point) return;
        full |= slice->points >= max_points || slice->bytes() >= kMaxBodyBytes;
        if (full) return;
        AppendPoint(name, value, block.times_us[row], step, slice);
        ++slice->next_point;
      });
    } else {
      ++slice->replays;
    }
    if (full) return;
    ++slice->next_row;
    slice->next_point = 0;
  });
}

SystemPoint SystemPointOf(const std::string& node, const std::string& name, double value) {
  std::string own = name;
  const std::vector<std::string> parts = absl::StrSplit(name, '.');
  const bool is_gpu = parts.size() == 3 && parts[0] == "gpu";
  const SystemMetric* const metric = is_gpu ? Find(kOfGpu, parts[2]) : Find(kOfNode, name);
  if (metric != nullptr) {
    own = absl::StrCat(is_gpu ? absl::StrCat("gpu_", parts[1], "_") : "", metric->ours);
    value *= metric->unit;
  }
  return {NameOf(absl::StrCat("system/", node.empty() ? "" : node + "/", own)), value};
}

void AppendSample(const model::Sample& sample, const std::string& node, Slice* slice) {
  for (const auto& [name, value] : sample.values) {
    const SystemPoint point = SystemPointOf(node, name, value);
    AppendPoint(point.name, point.value, sample.time_us, static_cast<int64_t>(sample.number),
                slice);
  }
}

}  // namespace ranklog::deliver::mlflow
