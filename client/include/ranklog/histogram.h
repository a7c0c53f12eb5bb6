#ifndef RANKLOG_HISTOGRAM_H_
#define RANKLOG_HISTOGRAM_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ranklog/compiler.h"
#include "ranklog/span.h"
#include "ranklog/value.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// A histogram as a value of a row; W&B shows it over the steps.
//
//   run.Log({{"grad/layer1", ranklog::Histogram(gradients)}}, step);
//
// It converts to the Value {"_type": "histogram", "values": [counts], "bins": [edges]}, which is what
// W&B's SDK logs for wandb.Histogram. Statistics over ranks are not made of it.
//
// Not thread-safe. Throws std::bad_alloc without memory. A row of 64 bins takes about 2 KB.
// Source: wandb/sdk/data_types/histogram.py of wandb 0.31.0, and numpy.histogram.
class Histogram {
 public:
  static constexpr size_t kDefaultBins = 64;
  static constexpr size_t kMaxBins = 512;  // W&B takes no more

  // Counts `samples` in `bins` bins of equal width between the least and the greatest one. `bins` is
  // brought into the range from 1 to kMaxBins. A bin has its lower edge, and the last one both. If
  // all samples are equal, the edges reach from 0.5 below to 0.5 above; without samples, from 0 to 1.
  // NaN and infinities are left out (numpy.histogram fails with them). Reads the samples twice.
  explicit Histogram(Span<const float> samples, size_t bins = kDefaultBins) {
    Count(samples, bins);
  }
  explicit Histogram(Span<const double> samples, size_t bins = kDefaultBins) {
    Count(samples, bins);
  }

  // Given bins: counts[i] samples are between edges[i] and edges[i + 1], so there is one more edge
  // than counts, which are at most kMaxBins integers. The edges ascend. Otherwise it is empty: it
  // has no counts and no edges, and is logged as null.
  template <typename Counts, typename Edges>
  static Histogram FromCounts(const Counts& counts, const Edges& edges) {
    static_assert(std::is_integral_v<std::decay_t<decltype(*counts.data())>>,
                  "counts are integers");
    Histogram histogram;
    const bool ascends = std::is_sorted(edges.data(), edges.data() + edges.size());
    if (counts.size() == 0 || counts.size() > kMaxBins || !ascends ||
        edges.size() != counts.size() + 1) {
      return histogram;
    }
    histogram.counts_.assign(counts.data(), counts.data() + counts.size());
    histogram.edges_.assign(edges.data(), edges.data() + edges.size());
    return histogram;
  }

  const std::vector<int64_t>& counts() const noexcept { return counts_; }
  const std::vector<double>& edges() const noexcept { return edges_; }

  operator Value() const {
    if (counts_.empty()) return Value();
    std::vector<Value::Field> fields;
    fields.reserve(3);
    fields.emplace_back("_type", "histogram");
    fields.emplace_back("values", List(counts_));
    fields.emplace_back("bins", List(edges_));
    return Value::Object(std::move(fields));
  }

 private:
  Histogram() = default;

  template <typename T>
  static Value List(const std::vector<T>& numbers) {
    return Value::List(std::vector<Value>(numbers.begin(), numbers.end()));
  }

  template <typename T>
  void Count(Span<const T> samples, size_t bins) {
    bins = std::min(std::max(bins, size_t{1}), kMaxBins);
    SetEdges(Limits(samples), bins);
    counts_.assign(bins, 0);
    const double width = edges_.back() - edges_.front();
    const double bins_per_unit = static_cast<double>(bins) / width;
    const bool estimates = std::isfinite(width) && std::isfinite(bins_per_unit);
    for (const T sample : samples) {
      if (!std::isfinite(sample)) continue;
      const double value = sample;
      // Rounding may put the estimate one bin too far, on either side.
      size_t bin = 0;
      if (estimates) {
        bin = std::min(static_cast<size_t>((value - edges_.front()) * bins_per_unit), bins - 1);
      }
      while (bin > 0 && value < edges_[bin]) --bin;
      while (bin + 1 < bins && value >= edges_[bin + 1]) ++bin;
      ++counts_[bin];
    }
  }

  // The least and the greatest finite sample.
  template <typename T>
  static std::pair<double, double> Limits(Span<const T> samples) {
    bool any = false;
    T least = 0;
    T greatest = 0;
    for (const T sample : samples) {
      if (!std::isfinite(sample)) continue;
      least = any ? std::min(least, sample) : sample;
      greatest = any ? std::max(greatest, sample) : sample;
      any = true;
    }
    if (!any) return {0.0, 1.0};
    const double low = least;
    const double high = greatest;
    return low == high ? std::pair(low - 0.5, high + 0.5) : std::pair(low, high);
  }

  // As numpy.linspace does it, unless the difference of the limits is infinite.
  void SetEdges(const std::pair<double, double>& limits, size_t bins) {
    const auto [low, high] = limits;
    const double count = static_cast<double>(bins);
    const double step = (high - low) / count;
    edges_.resize(bins + 1);
    for (size_t i = 0; i < bins; ++i) {
      const double at = static_cast<double>(i);
      const double part = at / count;
      edges_[i] = std::isfinite(step) ? at * step + low : low * (1 - part) + high * part;
    }
    edges_[bins] = high;
  }

  std::vector<int64_t> counts_;
  std::vector<double> edges_;
};

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_HISTOGRAM_H_
