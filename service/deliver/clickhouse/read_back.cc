// Compares what ClickHouse has of a run with the store.

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/aggregate/run_config.h"
#include "service/base/status_macros.h"
#include "service/deliver/asker.h"
#include "service/deliver/clickhouse/api.h"
#include "service/deliver/clickhouse/clickhouse_destination.h"
#include "service/deliver/clickhouse/cursor.h"
#include "service/deliver/clickhouse/description.h"
#include "service/deliver/clickhouse/format/blocks.h"

namespace ranklog::deliver::clickhouse {
namespace {

constexpr uint64_t kPageRows = 100'000;
constexpr uint64_t kStepFactor = 0x9E3779B97F4A7C15;
constexpr uint64_t kTimeFactor = 0xC2B2AE3D27D4EB4F;

// The digest of a value, modulo 2^64. Equal in C++ and in SQL, where integers wrap around, too. The
// digests of a row's values are added, and so are those of a stream's rows, each times 2 * seq + 1.
uint64_t PlaceDigest(const std::string& key, int64_t step, int64_t time_us) {
  const uint64_t name = crc32_z(0, reinterpret_cast<const Bytef*>(key.data()), key.size());
  return name * 0x100000001B3 + static_cast<uint64_t>(step) * kStepFactor +
         static_cast<uint64_t>(time_us) * kTimeFactor;
}
uint64_t PointDigest(const std::string& key, int64_t step, int64_t time_us, double value) {
  const uint64_t name = crc32_z(0, reinterpret_cast<const Bytef*>(key.data()), key.size());
  return std::bit_cast<uint64_t>(value) * (2 * name + 1) + PlaceDigest(key, step, time_us);
}
uint64_t TextDigest(const std::string& key, int64_t step, int64_t time_us,
                    const model::Text& text) {
  const uint64_t value =
      crc32_z(0, reinterpret_cast<const Bytef*>(text.value.data()), text.value.size());
  return (2 * value + (text.json ? 1 : 0)) * kTimeFactor + PlaceDigest(key, step, time_us);
}
std::string PlaceSql() {
  return absl::StrCat("toUInt64(CRC32(metric)) * 1099511628211 + toUInt64(step) * ", kStepFactor,
                      " + toUInt64(toUnixTimestamp64Micro(ts)) * ", kTimeFactor);
}
std::string PointSql() {
  return absl::StrCat("reinterpretAsUInt64(value) * (2 * toUInt64(CRC32(metric)) + 1) + ",
                      PlaceSql());
}
std::string TextSql() {
  return absl::StrCat("(2 * toUInt64(CRC32(value)) + is_json) * ", kTimeFactor, " + ", PlaceSql());
}

struct Sum {
  uint64_t count = 0;
  uint64_t digest = 0;

  friend bool operator==(const Sum&, const Sum&) = default;
};

class Comparison {
 public:
  Comparison(storage::StoreReader& reader, const model::Run& run, const model::Delivery& delivery,
             const Asker& asker, Server server)
      : reader_(reader),
        run_(run),
        delivery_(delivery),
        cursor_(CursorFrom(delivery.cursor)),
        asker_(asker),
        server_(std::move(server)) {}

  absl::StatusOr<ReadBackReport> Make(const ReadBackOptions& options) {
    ASSIGN_OR_RETURN(streams_, OwnStreams(reader_, run_.id));
    parameters_ = {{"project", run_.project}, {"run", RunName(run_, streams_)}};
    ReadBackReport report;
    uint64_t done = 0;
    for (const model::Stream& stream : streams_) {
      RETURN_IF_ERROR(CompareStream(stream, &report));
      options.progress(++done, streams_.size());
    }
    report.lines = static_cast<int64_t>(report.diff.lines());
    RETURN_IF_ERROR(CompareStatistics(&report));
    if (delivery_.complete) RETURN_IF_ERROR(CompareRun(&report));
    return report;
  }

 private:
  absl::StatusOr<std::vector<std::vector<std::string>>> Ask(absl::string_view sql) {
    ASSIGN_OR_RETURN(const std::string body, asker_.Ask(Query(server_, sql, parameters_)));
    return RowsOf(body);
  }

  // What the tables have of a stream, after `from` up to `to`; by row if `by_row`.
  std::string SumsSql(const model::Stream& stream, uint64_t from, uint64_t to, bool by_row) const {
    const auto part = [&](const char* table, const std::string& digest) {
      return absl::StrCat(
          "SELECT seq, ", digest, " AS digest FROM ", table,
          " WHERE project = {project:String} AND run = {run:String} AND rank = ", stream.key.rank,
          " AND stream = ", stream.key.incarnation, " AND seq > ", from, " AND seq <= ", to);
    };
    return absl::StrCat(
        "SELECT ", by_row ? "seq, count(), sum(digest)" : "0, count(), sum(digest * (2 * seq + 1))",
        " FROM (", part("points", PointSql()), " UNION ALL ", part("texts", TextSql()), ")",
        by_row ? " GROUP BY seq ORDER BY seq" : "", " FORMAT TabSeparated");
  }

  absl::StatusOr<std::map<uint64_t, Sum>> SumsAt(const model::Stream& stream, uint64_t from,
                                                 uint64_t to, bool by_row) {
    ASSIGN_OR_RETURN(const auto rows, Ask(SumsSql(stream, from, to, by_row)));
    std::map<uint64_t, Sum> sums;
    for (const std::vector<std::string>& row : rows) {
      uint64_t seq = 0;
      Sum sum;
      if (row.size() != 3 || !absl::SimpleAtoi(row[0], &seq) ||
          !absl::SimpleAtoi(row[1], &sum.count) || !absl::SimpleAtoi(row[2], &sum.digest)) {
        return absl::FailedPreconditionError("the answer is not ClickHouse's");
      }
      sums[seq] = sum;
    }
    return sums;
  }

  absl::Status CompareStream(const model::Stream& stream, ReadBackReport* report) {
    const auto place = cursor_.places.find(stream.id);
    const uint64_t to =
        place == cursor_.places.end() ? 0 : std::min(place->second.points, place->second.texts);
    Sum ours;
    uint64_t rows = 0;
    RETURN_IF_ERROR(ForEachRow(stream, 0, to, [&](uint64_t seq, const Sum& row) {
      ++rows;
      ours.count += row.count;
      ours.digest += row.digest * (2 * seq + 1);
    }));
    report->sent += rows;
    ASSIGN_OR_RETURN(const auto theirs, SumsAt(stream, 0, to, /*by_row=*/false));
    if (!theirs.empty() && theirs.begin()->second == ours) {
      report->diff.matching += rows;
    } else {
      RETURN_IF_ERROR(CompareRows(stream, to, report));
    }
    first_row_ += to;
    return absl::OkStatus();
  }

  absl::Status CompareRows(const model::Stream& stream, uint64_t to, ReadBackReport* report) {
    for (uint64_t from = 0; from < to; from += kPageRows) {
      const uint64_t end = std::min(to, from + kPageRows);
      ASSIGN_OR_RETURN(auto theirs, SumsAt(stream, from, end, /*by_row=*/true));
      RETURN_IF_ERROR(ForEachRow(stream, from, end, [&](uint64_t seq, const Sum& row) {
        Sum there;
        if (const auto found = theirs.find(seq); found != theirs.end()) {
          there = found->second;
          theirs.erase(found);
        }
        CompareRow(stream, seq, row, there, report);
      }));
      report->diff.unexpected += theirs.size();
    }
    return absl::OkStatus();
  }

  void CompareRow(const model::Stream& stream, uint64_t seq, const Sum& ours, const Sum& theirs,
                  ReadBackReport* report) {
    HistoryDiff& diff = report->diff;
    const uint64_t number = first_row_ + seq;
    if (ours == theirs) {
      ++diff.matching;
    } else if (theirs.count == 0) {
      ++diff.missing;
      if (!diff.gaps.empty() && diff.gaps.back().last + 1 == number) {
        diff.gaps.back().last = number;
      } else if (diff.gaps.size() < HistoryDiff::kKept) {
        diff.gaps.push_back({number, number});
      }
    } else if (ours.count > 0 && theirs.count % ours.count == 0 &&
               theirs.digest == ours.digest * (theirs.count / ours.count)) {
      ++diff.matching;
      diff.duplicates += theirs.count / ours.count - 1;
    } else {
      ++diff.differing;
      if (diff.differences.size() < HistoryDiff::kKept) {
        diff.differences.push_back(
            {number, absl::StrCat("rank ", stream.key.rank, ", row ", seq,
                                  " of its stream: ", theirs.count, " values there, ", ours.count,
                                  " sent", theirs.count == ours.count ? ", and they differ" : "")});
      }
    }
  }

  template <typename Fn>
  absl::Status ForEachRow(const model::Stream& stream, uint64_t from, uint64_t to, Fn&& fn) {
    return rows_.Visit(reader_, stream, from, to,
                       [&](const model::Block& block, size_t row, uint64_t seq,
                           const std::vector<std::string>& keys) {
                         Sum sum;
                         const int64_t step = StepOf(stream, block, row);
                         const int64_t time_us = block.times_us[row];
                         for (size_t i = 0; i < keys.size(); ++i) {
                           ++sum.count;
                           sum.digest += PointDigest(keys[i], step, time_us,
                                                     block.values[row * keys.size() + i]);
                         }
                         for (const model::Text& text : model::TextsOf(block, row)) {
                           ++sum.count;
                           sum.digest += TextDigest(text.key, step, time_us, text);
                         }
                         fn(seq, sum);
                         return true;
                       });
  }

  // The view has what the table has. Other nodes may insert meanwhile, so only an ended job is
  // compared.
  absl::Status CompareStatistics(ReadBackReport* report) {
    constexpr char kOfRun[] = "WHERE project = {project:String} AND run = {run:String}";
    ASSIGN_OR_RETURN(
        const auto rows,
        Ask(absl::StrCat("SELECT (SELECT countMerge(n) FROM rank_statistics ", kOfRun,
                         "), (SELECT count() FROM points ", kOfRun,
                         " AND NOT isNaN(value)), (SELECT countIf(state = 'running') FROM runs "
                         "FINAL ",
                         kOfRun, ") FORMAT TabSeparated")));
    if (rows.size() != 1 || rows[0].size() != 3) {
      return absl::FailedPreconditionError("the answer is not ClickHouse's");
    }
    if (rows[0][2] == "0" && delivery_.complete && rows[0][0] != rows[0][1]) {
      DocumentDiff& diff = report->summary;
      diff.compared = true;
      ++diff.differing;
      diff.problems.push_back(absl::StrCat("rank_statistics has ", rows[0][0],
                                           " values of this run, the table points has ", rows[0][1],
                                           "; deploy/clickhouse/repair.sql makes them anew"));
    }
    return absl::OkStatus();
  }

  absl::Status CompareRun(ReadBackReport* report) {
    ASSIGN_OR_RETURN(
        const auto rows,
        Ask(absl::StrCat("SELECT state, config FROM runs FINAL WHERE project = {project:String} "
                         "AND run = {run:String} AND part = ",
                         PartOf(streams_), " FORMAT TabSeparated")));
    DocumentDiff& diff = report->config;
    diff.compared = true;
    ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader_.Items(run_.id, 0));
    if (rows.size() != 1 || rows[0].size() != 2) {
      ++diff.missing;
      diff.problems.push_back("the table runs does not have this run");
      return absl::OkStatus();
    }
    report->state = rows[0][0];
    ASSIGN_OR_RETURN(const std::vector<model::Stream> all, reader_.Streams(run_.id));
    const model::Json config = aggregate::RunConfig(run_, all, items);
    if (Unescaped(rows[0][1]) == ConfigText(run_, all, items)) {
      diff.matching = config.size();
    } else {
      ++diff.differing;
      diff.problems.push_back("the config is another one");
    }
    return absl::OkStatus();
  }

  storage::StoreReader& reader_;
  const model::Run& run_;
  const model::Delivery& delivery_;
  const Cursor cursor_;
  const Asker& asker_;
  const Server server_;
  std::vector<model::Stream> streams_;
  Parameters parameters_;
  RowReader rows_;
  uint64_t first_row_ = 0;  // the number of the row before the stream's first one
};

}  // namespace

// A row is a row of a rank: they are numbered over all streams of the run, ordered by rank. The
// server computes a digest of each stream; only of a stream that differs are the rows read, as a
// digest for each.
absl::StatusOr<ReadBackReport> ClickhouseDestination::ReadBack(
    storage::StoreReader& reader, const model::Run& run, const model::Delivery& delivery,
    Transport& transport, const Credential& credential, const ReadBackOptions& options) const {
  ASSIGN_OR_RETURN(const std::string server, ServerOf(run.settings));
  const Asker asker(*this, &transport, credential, options);
  return Comparison(reader, run, delivery, asker, ServerAt(server, run.settings)).Make(options);
}

}  // namespace ranklog::deliver::clickhouse
