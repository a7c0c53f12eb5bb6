// The answers with curves. They are written directly, because they have a hundred thousand numbers.

#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_writer.h"
#include "service/ui/answers.h"
#include "service/ui/curves/rank_matrix.h"

namespace ranklog::ui {
namespace {

constexpr int64_t kFirst = std::numeric_limits<int64_t>::min();  // all points of a curve

void AppendValue(double value, std::string* out) {
  if (std::isfinite(value)) {
    deliver::AppendNumber(value, out);
  } else {
    *out += "null";
  }
}

template <typename Range, typename Append>
void AppendArray(const Range& range, Append append, std::string* out) {
  *out += '[';
  bool first = true;
  for (const auto& element : range) {
    if (!first) *out += ',';
    first = false;
    append(element);
  }
  *out += ']';
}

// "x":[...],"t":[...]
void AppendAxes(const std::vector<Point>& points, bool x_is_time, std::string* out) {
  if (!x_is_time) {
    *out += "\"x\":";
    AppendArray(
        points, [out](const Point& p) { deliver::AppendInteger(p.x, out); }, out);
    *out += ',';
  }
  *out += "\"t\":";
  // Milliseconds are enough for a chart.
  AppendArray(
      points, [out](const Point& p) { deliver::AppendSeconds(p.time_us / 1000 * 1000, out); }, out);
}

// "NAME":{"x":[...],"t":[...],"v":[...],"count":..,...}, from `since` on
void AppendCurve(absl::string_view name, const Curve& curve, int64_t since, bool x_is_time,
                 std::string* out) {
  const std::vector<Point> points = curve.From(since);
  deliver::AppendString(name, out);
  *out += ":{";
  AppendAxes(points, x_is_time, out);
  *out += ",\"v\":";
  AppendArray(
      points, [out](const Point& p) { AppendValue(p.value, out); }, out);
  absl::StrAppend(out, ",\"count\":", curve.count());
  if (const Curve::NotFinite& odd = curve.not_finite(); odd.count() > 0) {
    const std::vector<Point> marks = curve.NotFiniteFrom(since);
    absl::StrAppend(out, ",\"not_finite\":{\"NaN\":", odd.nan, ",\"inf\":", odd.inf,
                    ",\"-inf\":", odd.minus_inf, ",");
    AppendAxes(marks, x_is_time, out);
    *out += ",\"v\":";
    AppendArray(
        marks, [out](const Point& p) { absl::StrAppend(out, "\"", NotFiniteText(p.value), "\""); },
        out);
    *out += '}';
  }
  if (curve.count() > 0) {
    const std::pair<const char*, double> figures[] = {
        {"min", curve.min()}, {"max", curve.max()}, {"last", curve.last().value}};
    for (const auto& [key, value] : figures) {
      absl::StrAppend(out, ",\"", key, "\":");
      deliver::AppendNumber(value, out);
    }
    absl::StrAppend(out, ",\"last_step\":", curve.last().x);
  }
  *out += '}';
}

}  // namespace

absl::StatusOr<std::string> Answers::Curves(const Params& params) {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  ASSIGN_OR_RETURN(const int64_t since, params.Number("since", -1));
  std::string out;
  const auto write = [&](const RunCurves& curves, bool complete) {
    absl::StrAppend(&out, "{\"rows\":", curves.run().rows,
                    ",\"last_step\":", curves.run().last_step, ",\"rewinds\":", curves.rewinds(),
                    ",\"complete\":", complete ? "true" : "false", ",\"curves\":{");
    const std::vector<std::string> chosen = params.All("metric");
    bool first = true;
    for (const std::string& name : chosen.empty() ? curves.metrics() : chosen) {
      const Curve* const curve = curves.Find(name);
      if (curve == nullptr) continue;
      if (!first) out += ',';
      first = false;
      AppendCurve(name, *curve, since < 0 ? kFirst : since, /*x_is_time=*/false, &out);
    }
    out += "},\"more\":";
    AppendArray(
        curves.MetricsOfTexts(),
        [&out](const std::string& name) { deliver::AppendString(name, &out); }, &out);
    out += '}';
    return absl::OkStatus();
  };
  RETURN_IF_ERROR(cache_.Use(of.key, *of.reader, params.Get("quick") == "1", write));
  return out;
}

absl::StatusOr<std::string> Answers::System(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  ASSIGN_OR_RETURN(const model::Run run, of.reader->GetRun(of.key.run));
  constexpr size_t kPage = 1000;
  constexpr size_t kBuckets = 500;
  std::map<std::string, Curve> curves;
  for (uint64_t next = 0; next < run.samples;) {
    ASSIGN_OR_RETURN(const std::vector<model::Sample> samples,
                     of.reader->Samples(of.key.run, next, kPage));
    if (samples.empty()) break;
    for (const model::Sample& sample : samples) {
      for (const auto& [name, value] : sample.values) {
        curves.try_emplace(name, kBuckets)
            .first->second.Add({sample.time_us, sample.time_us, value});
      }
    }
    next = samples.back().number + 1;
  }
  std::string out = absl::StrCat("{\"samples\":", run.samples, ",\"curves\":{");
  bool first = true;
  for (const auto& [name, curve] : curves) {
    if (!first) out += ',';
    first = false;
    AppendCurve(name, curve, kFirst, /*x_is_time=*/true, &out);
  }
  return out + "}}";
}

absl::StatusOr<std::string> Answers::Ranks(const Params& params) const {
  ASSIGN_OR_RETURN(const RunOf of, OpenRun(params));
  const std::string metric = params.Get("metric");
  ASSIGN_OR_RETURN(const RankMatrix matrix,
                   ReadRankMatrix(*of.reader, of.key.run, metric.empty() ? kLag : metric));
  std::string out = "{\"metric\":";
  deliver::AppendString(metric.empty() ? kLag : metric, &out);
  const auto integer = [&out](auto value) { absl::StrAppend(&out, value); };
  out += ",\"steps\":";
  AppendArray(matrix.steps, integer, &out);
  out += ",\"ranks\":";
  AppendArray(matrix.ranks, integer, &out);
  out += ",\"highest\":";
  AppendArray(matrix.highest, integer, &out);
  out += ",\"not_finite\":";
  AppendArray(matrix.not_finite, integer, &out);
  absl::StrAppend(&out, ",\"compared\":", matrix.compared,
                  ",\"rows_left_out\":", matrix.rows_left_out, ",\"values\":");
  AppendArray(
      matrix.values,
      [&out](const std::vector<double>& row) {
        AppendArray(
            row, [&out](double value) { AppendValue(value, &out); }, &out);
      },
      &out);
  return out + "}";
}

}  // namespace ranklog::ui
