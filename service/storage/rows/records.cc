#include "service/storage/rows/records.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/documents.h"

namespace ranklog::storage {

const char kSelectRun[] =
    "SELECT run.id, run.job, run.run_id, run.name, run.primary_rank, run.local_only, run.state, "
    "run.exit_code, run.reason, run.rows, run.last_step, run.started_us, run.ended_us, "
    "(SELECT coalesce(sum(late_rows), 0) FROM stream WHERE stream.run = run.id), "
    "job.project, job.settings, run.primary_chosen, "
    "(SELECT notice FROM start WHERE start.project = job.project AND start.job_id = job.job_id "
    "AND notice <> '' ORDER BY id DESC LIMIT 1), "
    "EXISTS(SELECT 1 FROM start WHERE start.project = job.project AND start.job_id = job.job_id "
    "AND refused), "
    "coalesce((SELECT min(flags & 8) FROM start WHERE start.project = job.project "
    "AND start.job_id = job.job_id), 0), run.replays, run.furthest_step, run.attempt, "
    "run.step_base, (SELECT coalesce(sum(replayed_rows), 0) FROM stream "
    "WHERE stream.run = run.id), job.job_id, "
    "(SELECT coalesce(max(id), 0) FROM item WHERE item.run = run.id), "
    "(SELECT coalesce(max(number), -1) + 1 FROM sample WHERE sample.run = run.id) "
    "FROM run JOIN job ON job.id = run.job ";

std::string SelectStream() {
  return absl::StrCat(
      "SELECT stream.id, stream.run, stream.is_primary, job.project, "
      "coalesce(start.given_id, job.job_id), stream.rank, stream.incarnation, stream.local_rank, "
      "stream.world_size, stream.local_world_size, stream.node_rank, stream.node, stream.pid, "
      "stream.thread, stream.client_version, stream.durable_seq, stream.aggregated_seq, "
      "stream.passed_step, stream.state, stream.exit_code, stream.reason, ",
      LossColumns("stream.lost_", ""),
      ", stream.late_rows, stream.started_us, stream.ended_us, job.job_id, start.launch, "
      "start.given_id, start.flags, start.restart, start.batch_job, start.requeue, "
      "stream.process, start.notice, start.refused, "
      "(SELECT iif(primary_chosen, run_id, '') FROM run WHERE run.id = stream.run), "
      "stream.attempt, stream.began_anew, stream.begun_step, stream.replayed_rows, "
      "stream.merged_rows, stream.step_base, stream.init_us, stream.began_us, stream.boot_id, "
      "stream.durable_item, stream.lost_items, stream.refused_items, stream.console_items, "
      "stream.peer, stream.joined_seq, stream.joined, stream.joins, stream.joined_late "
      "FROM stream JOIN job ON job.id = stream.job LEFT JOIN start ON start.id = stream.start ");
}

// Rows and items of a local delivery count as delivered once they are in the store.
const char kSelectDelivery[] =
    "SELECT delivery.run, delivery.kind, "
    "CASE delivery.kind WHEN 'local' THEN run.rows ELSE delivered_rows END, "
    "refused_rows, complete, last_error, crashes, crashed_version, delivered_items, "
    "(SELECT coalesce(sum(count), 0) FROM item WHERE item.run = delivery.run "
    "AND item.id > delivered_items AND delivery.kind <> 'local'), place FROM delivery "
    "JOIN run ON run.id = delivery.run ";

// All that identifies a row as belonging to this stream; empty while that may change.
const char kSelectStreamOwner[] =
    "SELECT CASE run.primary_chosen WHEN 0 THEN '' ELSE "
    "'stream ' || hex(job.project) || ' ' || hex(job.job_id) || ' ' || hex(run.run_id) || "
    "' ' || stream.rank || ' ' || stream.incarnation || ' ' || stream.is_primary END, "
    "stream.durable_seq, stream.lost_with_store FROM stream JOIN job ON job.id = stream.job "
    "JOIN run ON run.id = stream.run WHERE stream.id = ?1";

const char kSelectRunOwner[] =
    "SELECT 'run ' || hex(job.project) || ' ' || hex(job.job_id) || ' ' || hex(run.run_id), "
    "run.rows, 0 FROM run JOIN job ON job.id = run.job WHERE run.id = ?1";

const char kSelectReplayOwner[] =
    "SELECT 'replays of run ' || hex(job.project) || ' ' || hex(job.job_id) || ' ' || "
    "hex(run.run_id), run.replays, 0 FROM run JOIN job ON job.id = run.job WHERE run.id = ?1";

const char kBeganTogether[] =
    "abs(CASE WHEN stream.boot_id = ?3 AND ?3 <> '' THEN stream.began_us - ?4 "
    "ELSE stream.init_us - ?2 END) <= 60000000";

std::string LossColumns(absl::string_view before, absl::string_view after) {
  return absl::StrJoin(model::kLossCounters, ", ", [&](std::string* out, const auto& counter) {
    absl::StrAppend(out, before, counter.name, after);
  });
}

std::string SameStartCondition() {
  return absl::StrCat(
      "((start.launch = ?5 AND start.restart = ?6 AND start.requeue = ?7) OR "
      "(?8 AND start.flags & ",
      kUnseen, " AND stream.world_size = ?9 AND ", kBeganTogether, "))");
}

namespace {

// Columns of kSelectRun.
constexpr int kSettingsColumn = 15;
constexpr int kPrimaryChosenColumn = 16;
constexpr int kNoticeColumn = 17;
constexpr int kRefusedColumn = 18;
constexpr int kMustBeThereColumn = 19;

// The flags of a start.
constexpr int64_t kIdGiven = 1;
constexpr int64_t kRestartsRanks = 2;
constexpr int64_t kWholeNode = 4;

// Returns the columns from left to right.
class Columns {
 public:
  explicit Columns(const Query& query, int first = 0) : query_(query), next_(first) {}
  template <typename T>
  void Read(T& value) {
    value = static_cast<T>(query_.Integer(next_++));
  }
  void Read(bool& value) { value = query_.Flag(next_++); }
  void Read(std::string& value) { value = query_.Text(next_++); }
  absl::string_view Bytes() { return query_.Bytes(next_++); }

  template <typename... T>
  void ReadAll(T&... values) {
    (Read(values), ...);
  }

 private:
  const Query& query_;
  int next_;
};

}  // namespace

absl::StatusOr<model::Run> RunOf(const Query& query) {
  model::Run run = RunWithoutSettings(query);
  ASSIGN_OR_RETURN(run.settings, DecodeSettings(query.Bytes(kSettingsColumn)));
  return run;
}

model::Run RunWithoutSettings(const Query& query) {
  model::Run run;
  Columns columns(query);
  columns.ReadAll(run.id, run.job, run.run_id, run.name, run.primary_rank, run.local_only,
                  run.state, run.exit_code, run.reason, run.rows, run.last_step, run.started_us,
                  run.ended_us, run.late_rows, run.project);
  run.primary_chosen = query.Flag(kPrimaryChosenColumn);
  run.notice = query.Text(kNoticeColumn);
  run.refused = query.Flag(kRefusedColumn);
  run.must_be_there = query.Flag(kMustBeThereColumn);
  Columns rest(query, kMustBeThereColumn + 1);
  std::string job_id;
  rest.ReadAll(run.replays, run.furthest_step, run.attempt, run.step_base, run.replayed_rows,
               job_id, run.last_item, run.samples);
  model::AddNumberNotice(job_id, run.run_id, run.primary_rank, &run.notice);
  return run;
}

int64_t LaunchFlags(const model::Launch& launch) {
  return (launch.id_given ? kIdGiven : 0) | (launch.restarts_ranks ? kRestartsRanks : 0) |
         (launch.whole_node ? kWholeNode : 0) | (launch.unseen ? kUnseen : 0);
}

void SetLaunchFlags(int64_t flags, model::Launch* launch) {
  launch->id_given = (flags & kIdGiven) != 0;
  launch->restarts_ranks = (flags & kRestartsRanks) != 0;
  launch->whole_node = (flags & kWholeNode) != 0;
  launch->unseen = (flags & kUnseen) != 0;
}

model::Stream StreamOf(const Query& query) {
  model::Stream stream;
  model::Identity& identity = stream.identity;
  Columns columns(query);
  columns.ReadAll(stream.id, stream.run, stream.primary, stream.key.project, stream.key.job_id,
                  stream.key.rank, stream.key.incarnation);
  columns.ReadAll(identity.local_rank, identity.world_size, identity.local_world_size,
                  identity.node_rank, identity.node, identity.pid, identity.thread,
                  identity.client_version);
  columns.ReadAll(stream.durable_seq, stream.aggregated_seq, stream.passed_step, stream.state,
                  stream.exit_code, stream.reason);
  for (const auto& [name, count] : model::kLossCounters) columns.Read(stream.losses.*count);
  columns.ReadAll(stream.late_rows, stream.started_us, stream.ended_us);
  model::Launch& launch = stream.launch;
  int64_t flags = 0;
  columns.ReadAll(stream.job_id, launch.id, launch.given_id, flags, launch.restart,
                  launch.batch_job, launch.requeue, launch.process, stream.notice, stream.refused,
                  stream.run_id);
  columns.ReadAll(stream.attempt, stream.began_anew, stream.begun_step, stream.replayed_rows,
                  stream.merged_rows, stream.step_base, stream.init_us, identity.began_us,
                  identity.boot_id, stream.durable_item, stream.lost_items, stream.losses.items,
                  stream.console_items, stream.peer, stream.joined_seq, stream.joined, stream.joins,
                  stream.joined_late);
  SetLaunchFlags(flags, &launch);
  stream.warns = (flags & kWarns) != 0;
  return stream;
}

absl::StatusOr<model::Stream> ReadStream(Database& database, int64_t id) {
  Query query = database.Select(absl::StrCat(SelectStream(), "WHERE stream.id = ?1"), {id});
  if (query.Next()) return StreamOf(query);
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat("no stream in the store has the id ", id));
}

absl::StatusOr<model::Stream> ReadStreamOfRing(Database& database, const model::StreamKey& key) {
  Query query = database.Select(
      absl::StrCat(SelectStream(),
                   "WHERE stream.incarnation = ?1 AND stream.rank = ?2 AND job.project = ?3"),
      {key.incarnation, key.rank, key.project});
  if (query.Next()) return StreamOf(query);
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError("the store knows no such ring");
}

absl::StatusOr<model::Delivery> DeliveryOf(const Query& query) {
  model::Delivery delivery;
  Columns columns(query);
  columns.ReadAll(delivery.run, delivery.kind, delivery.delivered_rows, delivery.refused_rows,
                  delivery.complete, delivery.last_error, delivery.crashes,
                  delivery.crashed_version, delivery.delivered_items, delivery.pending_items);
  ASSIGN_OR_RETURN(delivery.cursor, DecodeDocument(columns.Bytes()));
  return delivery;
}

}  // namespace ranklog::storage
