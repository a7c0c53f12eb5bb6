#include "service/aggregate/run_summary.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "service/model/json_text.h"

namespace ranklog::aggregate {

using model::Json;

namespace {

// With this factor, 2^64 of the largest numbers can be added.
constexpr double kSmall = 0x1p-64;

// The value without members that are null or empty objects; null if nothing is left.
Json WithoutNulls(Json value) {
  if (!value.is_object()) return value;
  Json kept = Json::object();
  for (auto& [key, member] : value.items()) {
    Json rest = WithoutNulls(std::move(member));
    if (!rest.is_null()) kept[key] = std::move(rest);
  }
  return kept.empty() ? Json() : kept;
}

// Replaces `value` by `later`, member by member if both are objects.
void Merge(Json later, Json* value) {
  if (!later.is_object() || !value->is_object()) {
    *value = std::move(later);
    return;
  }
  for (auto& [key, member] : later.items()) Merge(std::move(member), &(*value)[key]);
}

}  // namespace

size_t RunSummary::IndexOf(absl::string_view key) {
  std::string name(key.data(), key.size());
  auto [found, is_new] = index_.try_emplace(name, keys_.size());
  if (is_new) {
    keys_.push_back(std::move(name));
    figures_.emplace_back();
  }
  return found->second;
}

void RunSummary::AddNumber(MetricSummary& figures, double value, int64_t step) {
  if (!figures.any || step < figures.first_step) {
    figures.first_step = step;
    figures.first_number = value;
    figures.first.reset();
  }
  if (!figures.any || step >= figures.last_step) {
    figures.last_step = step;
    figures.last_number = value;
    figures.last.reset();
  }
  figures.any = true;
  figures.nan |= std::isnan(value);
  figures.min = figures.count == 0 ? value : std::min(figures.min, value);
  figures.max = figures.count == 0 ? value : std::max(figures.max, value);
  figures.sum += value;
  figures.small_sum += value * kSmall;
  ++figures.count;
}

void RunSummary::AddText(MetricSummary& figures, const model::Text& text, int64_t step) {
  Json value = text.json ? WithoutNulls(model::ParseJsonText(text.value)) : Json(text.value);
  if (value.is_null()) return;
  if (!figures.any || step < figures.first_step) {
    figures.first_step = step;
    figures.first = value;
  }
  if (!figures.any || step >= figures.last_step) {
    figures.last_step = step;
    if (figures.last.has_value()) {
      Merge(std::move(value), &*figures.last);
    } else {
      figures.last = std::move(value);
    }
  }
  figures.any = true;
}

void RunSummary::Add(const model::Batch& batch,
                     const std::vector<std::vector<std::string>>& shapes) {
  // Keys are ordered by their blocks' first rows. The values themselves are ordered by step,
  // because a row of another block may come earlier.
  for (const model::Block& block : batch.blocks) {
    if (block.rows() == 0) continue;
    const size_t width = block.width();
    std::vector<size_t>& indexes = shape_indexes_[block.shape];
    if (indexes.size() != width) {
      // If the caller does not know a shape, its values have no names, so skip them.
      if (block.shape >= shapes.size() || shapes[block.shape].size() != width) continue;
      indexes.clear();
      for (const std::string& key : shapes[block.shape]) indexes.push_back(IndexOf(key));
    }
    for (size_t row = 0; row < block.rows(); ++row) {
      const double* const values = block.values.data() + row * width;
      const int64_t step = block.steps[row];
      for (size_t i = 0; i < width; ++i) AddNumber(figures_[indexes[i]], values[i], step);
      if (rows_++ == 0 || step >= last_step_) {
        last_step_ = step;
        last_time_us_ = block.times_us[row];
      }
    }
    for (const model::Text& text : block.texts) {
      AddText(figures_[IndexOf(text.key)], text, block.steps[text.row]);
    }
  }
}

void RunSummary::AddValue(absl::string_view key, double value, int64_t step) {
  AddNumber(figures_[IndexOf(key)], value, step);
}

void RunSummary::Set(const SummaryValue& value) {
  const auto [found, is_new] = explicit_index_.try_emplace(value.key, explicit_.size());
  if (is_new) explicit_.emplace_back();
  explicit_[found->second] = value;
}

double RunSummary::MetricSummary::mean() const {
  const auto numbers = static_cast<double>(count);
  if (std::isfinite(sum)) return sum / numbers;
  if (!std::isfinite(small_sum)) return small_sum;  // one of the numbers is not finite
  constexpr double kLargest = std::numeric_limits<double>::max();
  return std::clamp(small_sum / numbers / kSmall, -kLargest, kLargest);
}

std::optional<Json> RunSummary::Shown(const std::string& key, const MetricSummary& figures) const {
  if (!figures.any) return std::nullopt;
  const Json first = figures.first.value_or(figures.first_number);
  const Json last = figures.last.value_or(figures.last_number);
  const model::MetricDefinition* const definition = table_->Find(key);
  if (definition == nullptr) return last;

  const auto number = [&figures](double value) {
    return figures.nan ? std::numeric_limits<double>::quiet_NaN() : value;
  };
  Json shown = Json::object();
  bool listed = false;
  for (const std::string& option : definition->summary) {
    const bool best = option == "best" && !definition->goal.empty();
    const bool wants_min = option == "min" || (best && definition->goal == "minimize");
    const bool wants_max = option == "max" || (best && definition->goal == "maximize");
    if (option == "none") return std::nullopt;
    if (option == "last") shown["last"] = last;
    if (option == "first") shown["first"] = first;
    if (figures.count > 0) {
      if (wants_min) shown[option] = number(figures.min);
      if (wants_max) shown[option] = number(figures.max);
      if (option == "mean") shown[option] = figures.mean();
    }
    listed |= wants_min || wants_max || option == "last" || option == "first" || option == "mean";
  }
  if (!listed) return last;
  if (shown.empty()) return std::nullopt;
  return shown;
}

Json RunSummary::ToJson() const {
  Json summary = Json::object();
  std::vector<bool> replaced(explicit_.size(), false);  // true if a later row replaced it
  for (size_t i = 0; i < keys_.size(); ++i) {
    std::optional<Json> shown = Shown(keys_[i], figures_[i]);
    const auto set = explicit_index_.find(keys_[i]);
    if (set != explicit_index_.end()) {
      const SummaryValue& value = explicit_[set->second];
      replaced[set->second] = shown.has_value() && figures_[i].last_step >= value.before_step;
      if (!replaced[set->second]) shown = value.value;
    }
    if (shown.has_value()) summary[keys_[i]] = *std::move(shown);
  }
  if (rows_ > 0) {
    summary["_step"] = last_step_;
    summary["_timestamp"] = static_cast<double>(last_time_us_) / 1e6;
  }
  for (size_t i = 0; i < explicit_.size(); ++i) {
    if (!replaced[i]) summary[explicit_[i].key] = explicit_[i].value;
  }
  return summary;
}

}  // namespace ranklog::aggregate
