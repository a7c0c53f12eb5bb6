#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/retention.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

// The limits of one sweep, which takes some milliseconds, so that no commit is delayed. The pages
// of this much data become free; this many records may be on as many pages.
constexpr uint64_t kSweptBytes = 2 << 20;
constexpr int64_t kSweptRecords = 512;

// A kind of record that a removed run leaves: how to select its key (one or two numbers) and size,
// and how to delete it.
struct Leavings {
  const char* select;
  const char* remove;
  bool two_keys;
};
constexpr Leavings kLeavings[] = {
    {"SELECT length(data), id FROM run_batch WHERE run = ?1 LIMIT ?2",
     "DELETE FROM run_batch WHERE id = ?1", false},
    {"SELECT length(data), id FROM replay_batch WHERE run = ?1 LIMIT ?2",
     "DELETE FROM replay_batch WHERE id = ?1", false},
    {"SELECT 24, id FROM run_rewind WHERE run = ?1 LIMIT ?2",
     "DELETE FROM run_rewind WHERE id = ?1", false},
    {"SELECT length(data), stream_batch.id FROM removed_stream "
     "JOIN stream_batch ON stream_batch.stream = removed_stream.id "
     "WHERE removed_stream.run = ?1 LIMIT ?2",
     "DELETE FROM stream_batch WHERE id = ?1", false},
    {"SELECT length(data), id FROM item WHERE run = ?1 LIMIT ?2", "DELETE FROM item WHERE id = ?1",
     false},
    {"SELECT length(data), id FROM sample WHERE run = ?1 LIMIT ?2",
     "DELETE FROM sample WHERE id = ?1", false},
    {"SELECT length(keys), id FROM sample_shape WHERE run = ?1 LIMIT ?2",
     "DELETE FROM sample_shape WHERE id = ?1", false},
    {"SELECT length(data), id FROM hardware WHERE id = ?1 LIMIT ?2",
     "DELETE FROM hardware WHERE id = ?1", false},
    {"SELECT length(text), id FROM console WHERE run = ?1 LIMIT ?2",
     "DELETE FROM console WHERE id = ?1", false},
    {"SELECT length(content), id FROM dead_letter WHERE run = ?1 LIMIT ?2",
     "DELETE FROM dead_letter WHERE id = ?1", false},
    {"SELECT length(keys), stream, shape FROM removed_stream "
     "JOIN shape ON shape.stream = removed_stream.id WHERE removed_stream.run = ?1 LIMIT ?2",
     "DELETE FROM shape WHERE stream = ?1 AND shape = ?2", true},
    {"SELECT length(keys), run, shape FROM run_shape WHERE run = ?1 LIMIT ?2",
     "DELETE FROM run_shape WHERE run = ?1 AND shape = ?2", true},
};

}  // namespace

absl::Status Store::RemoveRun(int64_t run, int64_t now_us, Removal removal) {
  RETURN_IF_ERROR(CheckInTransaction());
  ASSIGN_OR_RETURN(const bool may_go, MayBeRemoved(writer_, run, removal));
  if (!may_go) {
    return absl::FailedPreconditionError(absl::StrCat("run ", run, " may not be removed"));
  }
  ASSIGN_OR_RETURN(const int64_t job,
                   writer_.SelectInteger("SELECT job FROM run WHERE id = ?1", {run}));
  // If the user removes a run, its id becomes free.
  const bool keeps_id = removal == Removal::kDelivered;
  RETURN_IF_ERROR(
      Write("INSERT INTO removed_run(id, project, run_id, ended_us, removed_us, emptied, job_id) "
            "SELECT run.id, project, run_id, ended_us, ?2, 0, iif(?3, job_id, '') "
            "FROM run JOIN job ON job.id = run.job WHERE run.id = ?1",
            {run, now_us, keeps_id}));
  RETURN_IF_ERROR(
      Write("INSERT INTO removed_stream(id, run, rank, incarnation, durable_seq, durable_item) "
            "SELECT id, run, rank, incarnation, durable_seq, durable_item FROM stream "
            "WHERE run = ?1",
            {run}));
  RETURN_IF_ERROR(Write("DELETE FROM delivery WHERE run = ?1", {run}));
  RETURN_IF_ERROR(Write("DELETE FROM stream WHERE run = ?1", {run}));
  RETURN_IF_ERROR(Write("DELETE FROM run WHERE id = ?1", {run}));
  ForgetKnown();
  if (!keeps_id) {
    RETURN_IF_ERROR(
        Write("DELETE FROM start WHERE (project, job_id) IN (SELECT project, job_id FROM job "
              "WHERE id = ?1) AND NOT EXISTS (SELECT 1 FROM run WHERE job = ?1)",
              {job}));
  }
  return Write("DELETE FROM job WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM run WHERE job = ?1)",
               {job});
}

absl::StatusOr<Store::Swept> Store::SweepRemoved() {
  RETURN_IF_ERROR(CheckInTransaction());
  Swept swept;
  const absl::StatusOr<int64_t> run =
      writer_.SelectInteger("SELECT id FROM removed_run WHERE emptied = 0 LIMIT 1");
  if (absl::IsNotFound(run.status())) return swept;
  RETURN_IF_ERROR(run.status());
  swept.more = true;
  for (const Leavings& leavings : kLeavings) {
    struct Record {
      int64_t key;
      int64_t second_key;
    };
    std::vector<Record> records;
    {
      Query query = writer_.Select(leavings.select, {*run, kSweptRecords - swept.records});
      while (swept.bytes < kSweptBytes && query.Next()) {
        records.push_back({query.Integer(1), leavings.two_keys ? query.Integer(2) : 0});
        swept.bytes += query.Unsigned(0);
      }
      RETURN_IF_ERROR(query.status());
    }
    for (const Record& record : records) {
      RETURN_IF_ERROR(leavings.two_keys ? Write(leavings.remove, {record.key, record.second_key})
                                        : Write(leavings.remove, {record.key}));
    }
    swept.records += static_cast<int64_t>(records.size());
    if (swept.bytes >= kSweptBytes || swept.records >= kSweptRecords) return swept;
  }
  RETURN_IF_ERROR(Write("UPDATE removed_run SET emptied = 1 WHERE id = ?1", {*run}));
  return swept;
}

}  // namespace ranklog::storage
