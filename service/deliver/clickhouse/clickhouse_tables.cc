// The part of ClickhouseDelivery that makes and checks the tables, and asks what they have of the run.

#include <algorithm>

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
// sequence number of a stream tells what is there.
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
      run, part, " FORMAT TabSeparated");
  const absl::StatusOr<HttpResponse> answer =
      SendRequest(Query(at(), sql, {{"project", run_.project}, {"run", RunOf()}}));
  if (OutcomeOf(answer) != Outcome::kAccepted) {
    return NotAccepted("ask for the rows that are there", answer, now);
  }
  for (const std::vector<std::string>& row : RowsOf(answer->body)) {
    uint64_t stream = 0;
    uint64_t last = 0;
    if (row.size() != 3 || !absl::SimpleAtoi(row[1], &stream) || !absl::SimpleAtoi(row[2], &last)) {
      return BlockedByAnswer(absl::UnknownError("the answer is not ClickHouse's"), answer, now);
    }
    if (row[0] == "runs") cursor_.version = std::max(cursor_.version, last);
    if (row[0] == "samples" && stream == 1) cursor_.samples = std::max(cursor_.samples, last + 1);
    for (const model::Stream& one : streams_) {
      if (one.key.incarnation != stream) continue;
      Place& place = cursor_.places[one.id];
      uint64_t& there = row[0] == "points" ? place.points : place.texts;
      if (row[0] == "points" || row[0] == "texts") there = std::max(there, last);
    }
  }
  asked_ = now;
  prepared_.reset();  // the server may have a part of the cut
  next_.reset();
  return absl::ZeroDuration();
}

}  // namespace ranklog::deliver::clickhouse
