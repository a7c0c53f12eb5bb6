// Writes what a stream brings: shapes, rows, updates, and its end.

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/batch_codec.h"
#include "service/storage/documents.h"
#include "service/storage/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

using model::StreamState;

}  // namespace

absl::Status Store::DefineShape(int64_t stream, uint32_t shape,
                                absl::Span<const std::string> keys) {
  return Define(Owner::kStream, stream, shape, keys);
}

absl::StatusOr<uint64_t> Store::Append(int64_t stream, const model::Batch& batch) {
  ASSIGN_OR_RETURN(Known* const known, Find(Owner::kStream, stream));
  const uint64_t durable = known->next - 1;
  if (batch.last <= durable) return durable;
  RETURN_IF_ERROR(CheckFits(batch, *known));
  if (batch.first <= durable) {
    EncodeBatch(model::DropThrough(batch, durable), blob_, known->owner);
  } else {
    EncodeBatch(batch, blob_, known->owner);
  }
  RETURN_IF_ERROR(Write("INSERT INTO stream_batch(stream, last_seq, data) VALUES(?1, ?2, ?3)",
                        {stream, batch.last, Parameter::Blob(blob_)}));
  RETURN_IF_ERROR(Write("UPDATE stream SET durable_seq = ?2 WHERE id = ?1", {stream, batch.last}));
  known->next = batch.last + 1;
  return batch.last;
}

absl::Status Store::SkipTo(int64_t stream, uint64_t seq) {
  ASSIGN_OR_RETURN(Known* const known, Find(Owner::kStream, stream));
  if (seq < known->next) return absl::OkStatus();
  RETURN_IF_ERROR(
      Write("UPDATE stream SET durable_seq = ?2, lost_with_store = lost_with_store + ?3 "
            "WHERE id = ?1",
            {stream, seq, seq + 1 - known->next}));
  known->next = seq + 1;
  return absl::OkStatus();
}

absl::Status Store::Apply(int64_t stream, const model::Update& of_rank, int64_t now_us) {
  model::Update update = of_rank;
  // A new process counts its steps from the start. The run's earlier steps came before the update.
  ASSIGN_OR_RETURN(const int64_t begun,
                   writer_.SelectInteger(
                       "SELECT coalesce(max(begun_step), -1) FROM stream WHERE id = ?1", {stream}));
  update.before_step = std::max(update.before_step, begun + 1);
  const std::string document = EncodeUpdate(update);
  const auto kind = static_cast<int64_t>(update.kind);
  {
    Query last = writer_.Select(
        "SELECT kind, data FROM run_update WHERE stream = ?1 ORDER BY id DESC LIMIT 1", {stream});
    if (last.Next() && last.Integer(0) == kind && last.Bytes(1) == document) {
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(last.status());
  }
  return WriteOne(
      "INSERT INTO run_update(run, stream, time_us, kind, data) "
      "SELECT run, id, ?2, ?3, ?4 FROM stream WHERE id = ?1",
      stream, {stream, now_us, kind, Parameter::Blob(document)});
}

absl::Status Store::SetProgress(int64_t stream, int64_t passed_step) {
  return WriteOne("UPDATE stream SET passed_step = max(passed_step, ?2) WHERE id = ?1", stream,
                  {stream, passed_step});
}

absl::Status Store::SetAttempt(int64_t stream, uint32_t attempt, bool began_anew) {
  return WriteOne("UPDATE stream SET attempt = ?2, began_anew = ?3 WHERE id = ?1", stream,
                  {stream, attempt, began_anew});
}

absl::Status Store::SetLosses(int64_t stream, const model::Losses& losses) {
  std::string columns;
  std::vector<Parameter> values = {stream};
  for (const model::LossReason& reason : model::kLossReasons) {
    if (!reason.IsSetByRank()) continue;
    values.emplace_back(losses.*reason.rows);
    absl::StrAppend(&columns, columns.empty() ? "" : ", ", "lost_", reason.name, " = ?",
                    values.size());
  }
  return WriteOne(absl::StrCat("UPDATE stream SET ", columns, " WHERE id = ?1"), stream, values);
}

absl::Status Store::EndStream(int64_t stream, StreamState state, int32_t exit_code,
                              absl::string_view reason, int64_t now_us) {
  if (state == StreamState::kLive) {
    return absl::InvalidArgumentError("kLive is not an end state");
  }
  streams_.erase(stream);
  RETURN_IF_ERROR(
      Write("UPDATE stream SET state = ?2, exit_code = ?3, reason = ?4, "
            "ended_us = max(?5, 1 + (SELECT max(started_us) FROM stream AS other "
            "WHERE other.run = stream.run AND other.rank = stream.rank)) "
            "WHERE id = ?1 AND state <> ?2 AND state <> ?6",
            {stream, static_cast<int64_t>(state), exit_code, reason, now_us,
             static_cast<int64_t>(StreamState::kFinished)}));
  if (writer_.changed_rows() != 0) return absl::OkStatus();
  return ReadStream(writer_, stream).status();  // it had ended already, or does not exist
}

absl::Status Store::SetAggregated(int64_t stream, const UsedRows& used) {
  return WriteOne(
      "UPDATE stream SET aggregated_seq = ?2, late_rows = ?3, replayed_rows = ?4, "
      "merged_rows = ?5, step_base = ?6 WHERE id = ?1",
      stream, {stream, used.through, used.late, used.replayed, used.merged, used.step_base});
}

}  // namespace ranklog::storage
