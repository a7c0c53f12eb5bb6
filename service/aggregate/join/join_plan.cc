#include "service/aggregate/join/join_plan.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/aggregate/join/rank_stats.h"

namespace ranklog::aggregate {
namespace {

// A combination of shapes that does not recur is not worth keeping. A training has only a few. The
// second limit is for jobs of thousands of ranks: some 50 MB.
constexpr size_t kMaxPlans = 1024;
constexpr size_t kMaxPlannedSources = 4 << 20;

enum Figure : uint32_t { kMean, kMin, kMax, kStd, kArgmin, kArgmax, kFigureCount };
static_assert(std::size(model::kRankStatistics) == kFigureCount);

constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

double Value(const RankStats& stats, uint32_t figure) {
  if (stats.count == 0) return kNoFigure;
  switch (figure) {
    case kMean:
      return stats.mean;
    case kMin:
      return stats.min;
    case kMax:
      return stats.max;
    case kStd:
      return stats.std();
    case kArgmin:
      return stats.argmin;
    default:
      return stats.argmax;
  }
}

bool AreEqual(absl::Span<const StepRow> rows, absl::Span<const JoinPlan::Source> sources) {
  const auto value = [&rows](const JoinPlan::Source& source) {
    return rows[source.row].values[source.position];
  };
  const double first = value(sources.front());
  return std::all_of(sources.begin() + 1, sources.end(), [&](const JoinPlan::Source& source) {
    const double other = value(source);
    return other == first || (std::isnan(other) && std::isnan(first));
  });
}

// The sources of one rank's rows by key. A later row replaces an earlier one. In order of first
// appearance.
class MergedKeys {
 public:
  void Add(const std::string& key, JoinPlan::Source source) {
    auto [found, is_new] = index_.try_emplace(key, entries_.size());
    if (is_new) {
      entries_.emplace_back(&found->first, source);
    } else {
      entries_[found->second].second = source;
    }
  }
  bool contains(const std::string& key) const { return index_.contains(key); }
  const std::vector<std::pair<const std::string*, JoinPlan::Source>>& entries() const {
    return entries_;
  }

 private:
  std::map<std::string, size_t> index_;
  std::vector<std::pair<const std::string*, JoinPlan::Source>> entries_;
};

}  // namespace

void JoinPlan::Fill(absl::Span<const StepRow> rows, double* values) const {
  for (const Source& source : copied) *values++ = rows[source.row].values[source.position];
  for (const Joined& metric : joined) {
    RankStats stats;
    for (uint32_t i = metric.begin; i < metric.end; ++i) {
      stats.Add(reported[i].rank, rows[reported[i].row].values[reported[i].position]);
    }
    for (uint32_t figure = 0; figure < kFigureCount; ++figure) {
      if ((metric.figures >> figure & 1) != 0) *values++ = Value(stats, figure);
    }
    if (metric.counts) *values++ = metric.end - metric.begin;
  }
}

bool JoinPlan::Holds(absl::Span<const StepRow> rows) const {
  return std::all_of(equal.begin(), equal.end(), [&](const Joined& metric) {
    return AreEqual(rows,
                    absl::MakeConstSpan(reported).subspan(metric.begin, metric.end - metric.begin));
  });
}

JoinPlanner::JoinPlanner(model::RankStatistics statistics,
                         std::vector<std::vector<std::string>> run_shapes)
    : statistics_(std::move(statistics)) {
  for (uint32_t id = 1; id < run_shapes.size(); ++id) {
    for (const std::string& key : run_shapes[id]) AddDiffering(model::MetricOfStatistic(key));
    shapes_.try_emplace(std::move(run_shapes[id]), id);
    next_shape_ = id + 1;
  }
}

void JoinPlanner::SetWorldSize(uint32_t world_size) {
  if (std::exchange(world_size_, world_size) != world_size) ForgetPlans();
}

void JoinPlanner::ForgetPlans() {
  plans_.clear();
  planned_sources_ = 0;
  last_plan_ = nullptr;
}

const JoinPlan& JoinPlanner::PlanFor(absl::Span<const StepRow> rows,
                                     const std::set<std::string>& masked) {
  if (!masked.empty()) return masked_plan_ = Make(rows, masked);
  signature_.clear();
  for (const StepRow& row : rows) {
    signature_.push_back(static_cast<uint64_t>(row.stream) << 32 | row.shape);
  }
  const bool is_last = last_plan_ != nullptr && signature_ == last_signature_;
  if (is_last && last_plan_->Holds(rows)) return *last_plan_;
  auto found = plans_.find(signature_);
  if (found == plans_.end() || !found->second.Holds(rows)) {
    if (plans_.size() >= kMaxPlans || planned_sources_ >= kMaxPlannedSources) ForgetPlans();
    JoinPlan plan = Make(rows, masked);
    planned_sources_ += plan.reported.size();
    found = plans_.insert_or_assign(signature_, std::move(plan)).first;
  }
  last_signature_ = signature_;
  last_plan_ = &found->second;
  return *last_plan_;
}

JoinPlan JoinPlanner::Make(absl::Span<const StepRow> rows, const std::set<std::string>& masked) {
  MergedKeys primary;
  std::map<uint32_t, MergedKeys> ranks;
  for (uint32_t r = 0; r < rows.size(); ++r) {
    for (uint32_t i = 0; i < rows[r].keys->size(); ++i) {
      const std::string& key = (*rows[r].keys)[i];
      if (rows[r].primary && masked.contains(key)) continue;
      const JoinPlan::Source source{r, i, rows[r].rank};
      if (rows[r].primary) primary.Add(key, source);
      if (joins()) ranks[rows[r].rank].Add(key, source);
    }
  }

  JoinPlan plan;
  std::vector<std::string> keys;
  bool changed = false;  // metrics began to differ
  for (const auto& [key, source] : primary.entries()) {
    keys.push_back(*key);
    plan.copied.push_back(source);
    if (joins()) changed |= AddDiffering(model::MetricOfStatistic(*key));
  }
  // The primary's metrics in its own order, then those that only other ranks have.
  std::map<std::string, std::vector<JoinPlan::Source>> reports;
  std::vector<std::string> order = keys;
  for (const auto& [rank, merged] : ranks) {
    for (const auto& [key, source] : merged.entries()) {
      std::vector<JoinPlan::Source>& sources = reports[*key];
      if (sources.empty() && !primary.contains(*key)) order.push_back(*key);
      sources.push_back(source);
    }
  }
  for (const std::string& key : order) {
    const std::vector<JoinPlan::Source>& sources = reports[key];
    const uint32_t figures = statistics_.Of(key);
    if (sources.size() < 2 || figures == 0) continue;
    JoinPlan::Joined metric;
    metric.begin = static_cast<uint32_t>(plan.reported.size());
    plan.reported.insert(plan.reported.end(), sources.begin(), sources.end());
    metric.end = static_cast<uint32_t>(plan.reported.size());
    if (changes_ < kMaxChanges && !differing_.contains(key) && AreEqual(rows, sources)) {
      plan.equal.push_back(metric);
      continue;
    }
    changed |= AddDiffering(key);
    for (uint32_t figure = 0; figure < kFigureCount; ++figure) {
      if ((figures >> figure & 1) == 0) continue;
      std::string name = absl::StrCat("rank_", model::kRankStatistics[figure], "/", key);
      if (primary.contains(name)) continue;  // the primary's own values stay unchanged
      metric.figures |= 1u << figure;
      keys.push_back(std::move(name));
    }
    if (std::string name = absl::StrCat("rank_", model::kRankCount, "/", key);
        world_size_ != 0 && sources.size() != world_size_ && !primary.contains(name)) {
      metric.counts = true;
      keys.push_back(std::move(name));
    }
    plan.joined.push_back(metric);
  }
  if (changed) {  // the other plans may lack statistics of these metrics
    ++changes_;
    ForgetPlans();
  }
  plan.width = keys.size();
  plan.shape = ShapeOf(std::move(keys));
  return plan;
}

// Returns true if the metric had not differed before. An empty name is none.
bool JoinPlanner::AddDiffering(absl::string_view metric) {
  return !metric.empty() && differing_.emplace(metric.data(), metric.size()).second;
}

uint32_t JoinPlanner::ShapeOf(std::vector<std::string> keys) {
  if (keys.empty()) return 0;
  auto [found, is_new] = shapes_.try_emplace(std::move(keys), next_shape_);
  if (is_new) new_shapes_.push_back({next_shape_++, found->first});
  return found->second;
}

std::vector<Aggregated::NewShape> JoinPlanner::TakeNewShapes() {
  return std::exchange(new_shapes_, {});
}

}  // namespace ranklog::aggregate
