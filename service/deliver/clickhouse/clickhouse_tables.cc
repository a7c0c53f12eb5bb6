// The part of ClickhouseDelivery that makes and checks the tables, and asks what they have of the run.

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/deliver/clickhouse/clickhouse_delivery.h"
#include "service/deliver/clickhouse/schema.h"

namespace ranklog::deliver::clickhouse {
namespace {

// One row: the version, and the names of what is there.
std::string CheckText() {
  const std::string names =
      absl::StrJoin(SchemaObjects(), ", ", [](std::string* out, const SchemaObject& object) {
        absl::StrAppend(out, "'", object.name, "'");
      });
  return absl::StrCat(
      "SELECT (SELECT max(version) FROM ranklog_schema), arrayStringConcat(groupArray(name), ' ') "
      "FROM system.tables WHERE database = currentDatabase() AND name IN (",
      names, ") FORMAT TabSeparated");
}

// A row 'token': the number of tokens that the server keeps, and how many inserts it had since that of
// the cut, at most. A part's name has the numbers of its first and its last insert. Tables with
// replicas count otherwise: 0 tokens.
std::string TokenText(absl::Span<const model::Stream> streams, const Cut& cut) {
  std::string last_rows;
  for (const model::Stream& stream : streams) {
    const auto to = cut.to.find(stream.id);
    if (to == cut.to.end()) continue;
    absl::StrAppend(&last_rows, last_rows.empty() ? "(" : ", (", stream.key.incarnation, ", ",
                    to->second, ")");
  }
  return absl::StrCat(
      "SELECT 'token' AS kind, (SELECT min(toUInt64OrZero(extract(engine_full, "
      "'non_replicated_deduplication_window = ([0-9]+)'))) FROM system.tables WHERE database = "
      "currentDatabase() AND name IN ('points', 'rank_statistics')) AS stream, "
      "toUInt64(max(toUInt64OrZero(splitByChar('_', part)[3])) - (SELECT "
      "toUInt64OrZero(splitByChar('_', any(_part))[2]) FROM points WHERE project = "
      "{project:String} AND run = {run:String} AND (stream, seq) IN (",
      last_rows, "))) AS last FROM (SELECT _part AS part FROM points GROUP BY _part)");
}

}  // namespace

ClickhouseDelivery::Wait ClickhouseDelivery::CheckTables(absl::Time now) {
  if (make_tables_) return MakeTables(now);
  // An insert does not fail if its view is gone, so that is checked again.
  if (now < next_check_) return absl::nullopt;
  const absl::StatusOr<HttpResponse> answer = SendRequest(Query(at(), CheckText()));
  const int code = ExceptionCode(answer);
  if (code == kUnknownTable || code == kUnknownDatabase) {
    make_tables_ = true;
    make_database_ = code == kUnknownDatabase;
    made_tables_ = 0;
    return absl::ZeroDuration();
  }
  if (OutcomeOf(answer) != Outcome::kAccepted) return NotAccepted("check the tables", answer, now);
  const std::vector<std::vector<std::string>> rows = RowsOf(answer->body);
  unsigned version = 0;
  if (rows.size() != 1 || rows[0].size() != 2 || !absl::SimpleAtoi(rows[0][0], &version)) {
    return BlockedByAnswer(absl::UnknownError("the answer is not ClickHouse's"), answer, now);
  }
  if (version > kSchemaVersion) {
    return Blocked(absl::StrCat("the tables in database ", at().database, " have version ", version,
                                ", this program knows version ", kSchemaVersion, kToContinue,
                                "install the version of Ranklog that made them, or set "
                                "CLICKHOUSE_DATABASE to another database"),
                   now);
  }
  if (version == 0) {  // somebody stopped in the middle
    make_tables_ = true;
    made_tables_ = 0;
    return absl::ZeroDuration();
  }
  for (const SchemaObject& object : SchemaObjects()) {
    if (absl::StrContains(absl::StrCat(" ", rows[0][1], " "),
                          absl::StrCat(" ", object.name, " "))) {
      continue;
    }
    return Blocked(
        absl::StrCat("somebody dropped ", object.name, " in database ", at().database,
                     "; no rows are sent, so that it lacks none", kToContinue,
                     "create it again by deploy/clickhouse/schema.sql, then fill it by repair.sql "
                     "beside that file"),
        now);
  }
  cursor_.tables = true;
  // Not a success: the backoff after a refused insert goes on.
  next_check_ = now + options_.check_interval;
  return absl::ZeroDuration();
}

// Several daemons may do it at the same time. The version comes last.
absl::Duration ClickhouseDelivery::MakeTables(absl::Time now) {
  const absl::Span<const SchemaObject> objects = SchemaObjects();
  absl::StatusOr<HttpResponse> answer;
  if (make_database_) {
    answer = SendRequest(CreateDatabase(at()));
  } else {
    answer = SendRequest(Query(at(), made_tables_ < objects.size()
                                         ? absl::string_view(objects[made_tables_].sql)
                                         : absl::string_view(RecordVersion())));
  }
  if (OutcomeOf(answer) != Outcome::kAccepted) {
    const absl::Duration wait = NotAccepted("create the tables", answer, now);
    make_tables_ = false;  // a person may create them, so look again
    return wait;
  }
  OnSuccess();
  if (make_database_) {
    make_database_ = false;
  } else if (made_tables_++ == objects.size()) {
    make_tables_ = false;
  }
  return absl::ZeroDuration();
}

// After a start, and when a token may be forgotten. A cut is stored as a whole, so the largest
// sequence number of a stream tells what is there. But the view may lack it, which only a repetition
// completes.
absl::Duration ClickhouseDelivery::AskPlaces(absl::Time now) {
  // The projection `places` of the tables has the answer: a row per stream and part.
  const std::string where =
      "WHERE project = {project:String} AND run = {run:String} GROUP BY project, run, stream";
  const std::string part = absl::StrCat(PartOf(streams_));
  const std::string run = "WHERE project = {project:String} AND run = {run:String} AND part = ";
  const std::string sql = absl::StrCat(
      "SELECT 'points' AS kind, stream, max(seq) AS last FROM points ", where,
      " UNION ALL SELECT 'texts' AS kind, stream, max(seq) AS last FROM texts ", where,
      " UNION ALL SELECT 'samples' AS kind, toUInt64(count() > 0) AS stream, max(number) AS last "
      "FROM system_samples ",
      run, part,
      " UNION ALL SELECT 'runs' AS kind, toUInt64(0) AS stream, max(version) AS last FROM runs ",
      run, part, cursor_.cut ? " UNION ALL " + TokenText(streams_, *cursor_.cut) : "",
      " FORMAT TabSeparated");
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Query(at(), sql, {{"project", run_.project}, {"run", RunOf()}}));
  if (OutcomeOf(answer) != Outcome::kAccepted) {
    return NotAccepted("ask for the rows that are there", answer, now);
  }
  std::map<int64_t, uint64_t> points;
  bool knows_token = false;
  for (const std::vector<std::string>& row : RowsOf(answer->body)) {
    uint64_t stream = 0;
    uint64_t last = 0;
    if (row.size() != 3 || !absl::SimpleAtoi(row[1], &stream) || !absl::SimpleAtoi(row[2], &last)) {
      return BlockedByAnswer(absl::UnknownError("the answer is not ClickHouse's"), answer, now);
    }
    if (row[0] == "runs") cursor_.version = std::max(cursor_.version, last);
    // Others may insert before the repetition.
    if (row[0] == "token") knows_token = last < stream / 2;
    if (row[0] == "samples" && stream == 1) cursor_.samples = std::max(cursor_.samples, last + 1);
    for (const model::Stream& one : streams_) {
      if (one.key.incarnation != stream) continue;
      uint64_t& texts = cursor_.places[one.id].texts;
      if (row[0] == "points") points[one.id] = last;
      if (row[0] == "texts") texts = std::max(texts, last);
    }
  }
  std::map<int64_t, Place> after = cursor_.places;
  if (cursor_.cut) Move(cursor_.cut->to, &after);
  // Rows behind the cut: it was answered, but this is an older store.
  const bool repeats =
      knows_token && std::all_of(points.begin(), points.end(), [&after](const auto& there) {
        return there.second <= after[there.first].points;
      });
  for (const auto& [id, last] : points) {
    if (repeats) break;
    cursor_.places[id].points = std::max(cursor_.places[id].points, last);
  }
  asked_ = now;
  prepared_.reset();  // the server may have a part of the cut
  next_.reset();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::clickhouse
