// Reads a run back from an MLflow server: `ranklog verify`.

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/deliver/asker.h"
#include "service/deliver/http/url.h"
#include "service/deliver/json/bounded_json.h"
#include "service/deliver/mlflow/api.h"
#include "service/deliver/mlflow/cursor.h"
#include "service/deliver/mlflow/format/description.h"
#include "service/deliver/mlflow/format/points.h"
#include "service/deliver/mlflow/mlflow_destination.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr int kPage = 10000;  // points of an answer: below the limit of values
constexpr size_t kMaxAnswer = 64 << 20;
constexpr uint64_t kPointsInMemory = 2'000'000;  // about 100 MB
constexpr size_t kCompareBytes = 4 << 20;

// A point of one name. -0 equals 0, and all NaN are equal, as for the server.
struct Point {
  int64_t step = 0;
  int64_t time_ms = 0;
  uint64_t value = 0;

  friend auto operator<=>(const Point&, const Point&) = default;
};

Point PointOf(int64_t step, int64_t time_ms, double value) {
  value = std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : StoredValue(value) + 0.0;
  return {step, time_ms, std::bit_cast<uint64_t>(value)};
}

double NumberOf(const ServerJson& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

class Comparison {
 public:
  Comparison(const Destination& destination, storage::StoreReader& reader, const model::Run& run,
             const model::Delivery& delivery, const Asker& asker, std::string server)
      : kind_(destination.kind()),
        reader_(reader),
        run_(run),
        delivery_(delivery),
        cursor_(CursorFrom(delivery.cursor)),
        asker_(asker),
        server_(std::move(server)),
        points_(run.settings.imported, cursor_.replays_through) {}

  absl::StatusOr<ReadBackReport> Make(const ReadBackOptions& options) {
    ReadBackReport report;
    report.sent = delivery_.delivered_rows - delivery_.replayed_rows();
    report.lines = static_cast<int64_t>(report.sent);  // a server of points counts no rows
    ASSIGN_OR_RETURN(const ServerRun found, ReadRun());
    report.state = found.status;
    report.continued = cursor_.joined;
    ASSIGN_OR_RETURN(shapes_, reader_.RunShapes(run_.id));
    RETURN_IF_ERROR(ReadLetters());
    ASSIGN_OR_RETURN(const std::set<std::string> names, Names());
    const uint64_t per_name = std::max<uint64_t>(delivery_.delivered_rows, 1);
    const size_t group = std::max<uint64_t>(kPointsInMemory / per_name, 1);
    uint64_t done = 0;
    for (auto name = names.begin(); name != names.end();) {
      there_.clear();
      for (size_t i = 0; i < group && name != names.end(); ++i, ++name, ++done) {
        RETURN_IF_ERROR(ReadHistory(*name));
      }
      RETURN_IF_ERROR(CompareRows(&report));
      options.progress(done, names.size());
    }
    Count(&report);
    if (delivery_.complete) RETURN_IF_ERROR(CompareParams(found, &report));
    return report;
  }

 private:
  absl::StatusOr<ServerRun> ReadRun() {
    HttpRequest request =
        Get(server_, absl::StrCat("runs/get?run_id=", PercentEncode(cursor_.run_id)));
    ASSIGN_OR_RETURN(HttpResponse answer, Ask(std::move(request)));
    return ParseRun(answer);
  }

  absl::StatusOr<HttpResponse> Ask(HttpRequest request) {
    request.max_answer = kMaxAnswer;
    SetTrust(run_.settings, &request);
    HttpResponse answer;
    ASSIGN_OR_RETURN(answer.body, asker_.Ask(std::move(request)));
    return answer;
  }

  // Rows that the server refused, in part or as a whole.
  absl::Status ReadLetters() {
    ASSIGN_OR_RETURN(const std::vector<model::DeadLetter> letters, reader_.DeadLetters(run_.id));
    for (const model::DeadLetter& letter : letters) {
      if (letter.kind != kind_ || letter.content.empty()) continue;
      if (absl::StartsWith(letter.content, "{\"key\"")) refused_.insert(letter.row);
    }
    return absl::OkStatus();
  }

  template <typename Fn>
  absl::Status ForEachRow(Fn&& fn) {
    uint64_t next = 0;
    while (next < delivery_.delivered_rows) {
      ASSIGN_OR_RETURN(const std::vector<storage::StoredBatch> batches,
                       reader_.RunBatches(run_.id, next, kCompareBytes));
      const uint64_t before = next;
      for (const storage::StoredBatch& stored : batches) {
        model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t at) {
          if (at != next || at >= delivery_.delivered_rows) return;
          ++next;
          const int64_t step = points_.StepOf(block, row);
          if (step < 0 && cursor_.replays_through >= 0) return;
          fn(at, block, row, step);
        });
      }
      if (next == before) {
        return absl::DataLossError(absl::StrCat("row ", next, " is not in the store"));
      }
    }
    return absl::OkStatus();
  }

  // Also finds the rows with other values than numbers.
  absl::StatusOr<std::set<std::string>> Names() {
    std::set<std::string> names;
    RETURN_IF_ERROR(ForEachRow([&](uint64_t at, const model::Block& block, size_t row, int64_t) {
      const auto add = [&](const std::string& name, double) { names.insert(name); };
      if (!points_.Visit(block, row, shapes_, add)) not_held_.insert(at);
    }));
    return names;
  }

  absl::Status ReadHistory(const std::string& name) {
    std::map<Point, bool>& points = there_[name];
    std::string token;
    do {
      std::string path = absl::StrCat("metrics/get-history?run_id=", PercentEncode(cursor_.run_id),
                                      "&metric_key=", PercentEncode(name), "&max_results=", kPage);
      if (!token.empty()) absl::StrAppend(&path, "&page_token=", PercentEncode(token));
      ASSIGN_OR_RETURN(const HttpResponse answer, Ask(Get(server_, path)));
      ASSIGN_OR_RETURN(const ServerJson page, ParseObject(answer));
      for (const ServerJson& metric : page.value("metrics", ServerJson::array())) {
        points.emplace(PointOf(metric.value("step", int64_t{0}),
                               metric.value("timestamp", int64_t{0}), NumberOf(metric["value"])),
                       false);
      }
      token = page.value("next_page_token", "");
    } while (!token.empty());
    return absl::OkStatus();
  }

  absl::Status CompareRows(ReadBackReport* report) {
    bad_.resize(delivery_.delivered_rows, false);
    RETURN_IF_ERROR(
        ForEachRow([&](uint64_t at, const model::Block& block, size_t row, int64_t step) {
          points_.Visit(block, row, shapes_, [&](const std::string& name, double value) {
            const auto history = there_.find(name);
            if (history == there_.end()) return;  // of another group
            const int64_t time_ms = std::max<int64_t>(ToMs(block.times_us[row]), 0);
            const auto found = history->second.find(PointOf(step, time_ms, value));
            if (found != history->second.end()) {
              found->second = true;
              return;
            }
            // A value that is not ours at our place.
            const auto near = history->second.lower_bound(Point{step, time_ms, 0});
            const bool differs = near != history->second.end() && near->first.step == step &&
                                 near->first.time_ms == time_ms;
            if (refused_.count(at) > 0) return;
            Miss(at,
                 differs ? absl::StrCat(name, " is ",
                                        PlainNumber(std::bit_cast<double>(near->first.value), 17),
                                        ", not ", PlainNumber(value, 17))
                         : "",
                 report);
          });
        }));
    // Points of others, or of rows that were sent a moment ago.
    if (cursor_.joined || !delivery_.complete) return absl::OkStatus();
    for (const auto& [name, points] : there_) {
      report->diff.unexpected += static_cast<uint64_t>(std::count_if(
          points.begin(), points.end(), [](const auto& point) { return !point.second; }));
    }
    return absl::OkStatus();
  }

  // `difference` empty: the point is not there.
  void Miss(uint64_t row, std::string difference, ReadBackReport* report) {
    if (bad_[row]) return;
    bad_[row] = true;
    HistoryDiff& diff = report->diff;
    if (!difference.empty()) {
      ++diff.differing;
      if (diff.differences.size() < HistoryDiff::kKept) {
        diff.differences.push_back({row, std::move(difference)});
      }
      return;
    }
    ++diff.missing;
    if (!diff.gaps.empty() && diff.gaps.back().last + 1 == row) {
      diff.gaps.back().last = row;
    } else if (diff.gaps.size() < HistoryDiff::kKept) {
      diff.gaps.push_back({row, row});
    }
  }

  void Count(ReadBackReport* report) {
    HistoryDiff& diff = report->diff;
    const auto is_there = [this](uint64_t row) { return row < bad_.size() && !bad_[row]; };
    for (const uint64_t row : refused_) diff.bare += is_there(row) ? 1 : 0;
    for (const uint64_t row : not_held_) {
      diff.not_held += is_there(row) && refused_.count(row) == 0 ? 1 : 0;
    }
    diff.not_held_keys = points_.unsent();
    diff.matching = report->sent - diff.missing - diff.differing - diff.bare - diff.not_held;
  }

  absl::Status CompareParams(const ServerRun& found, ReadBackReport* report) {
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader_.Streams(run_.id));
    ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader_.Items(run_.id, 0));
    DocumentDiff& diff = report->config;
    diff.compared = true;
    const auto problem = [&diff](std::string text) {
      if (diff.problems.size() < DocumentDiff::kKept) diff.problems.push_back(std::move(text));
    };
    const Description description = Describe(run_, streams, items, shapes_);
    for (const auto& [key, value] : description.params) {
      const auto there = found.params.find(key);
      if (there == found.params.end()) {
        ++diff.missing;
        problem(absl::StrCat("param ", key, ": missing"));
      } else if (there->second == value || found.Tag(ChangedParamTag(key)) == value) {
        ++diff.matching;
      } else {
        ++diff.differing;
        problem(absl::StrCat("param ", key, ": ", there->second, ", not ", value));
      }
    }
    return absl::OkStatus();
  }

  const std::string kind_;
  storage::StoreReader& reader_;
  const model::Run& run_;
  const model::Delivery& delivery_;
  const Cursor cursor_;
  const Asker& asker_;
  const std::string server_;
  std::vector<std::vector<std::string>> shapes_;
  RowPoints points_;
  std::set<uint64_t> refused_;
  std::set<uint64_t> not_held_;  // rows with values that are not numbers
  std::vector<bool> bad_;        // by row
  // By name: the server's points; true: it is of a row.
  std::map<std::string, std::map<Point, bool>> there_;
};

}  // namespace

absl::StatusOr<ReadBackReport> MlflowDestination::ReadBack(
    storage::StoreReader& reader, const model::Run& run, const model::Delivery& delivery,
    Transport& transport, const Credential& credential, const ReadBackOptions& options) const {
  ASSIGN_OR_RETURN(std::string server, ServerOf(run.settings));
  const Asker asker(*this, &transport, credential, options);
  return Comparison(*this, reader, run, delivery, asker, std::move(server)).Make(options);
}

}  // namespace ranklog::deliver::mlflow
