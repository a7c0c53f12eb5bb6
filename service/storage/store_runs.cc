#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/store_file.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {

absl::Status Store::DefineRunShape(int64_t run, uint32_t shape,
                                   absl::Span<const std::string> keys) {
  return Define(Owner::kRun, run, shape, keys);
}

absl::Status Store::AppendRunRows(int64_t run, const model::Batch& batch) {
  ASSIGN_OR_RETURN(Known* const known, Find(Owner::kRun, run));
  if (batch.first < known->next) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", known->next, " rows; these begin at ", batch.first));
  }
  RETURN_IF_ERROR(CheckFits(batch, *known));
  EncodeBatch(batch, blob_, known->owner);
  RETURN_IF_ERROR(Write("INSERT INTO run_batch(run, last_index, data) VALUES(?1, ?2, ?3)",
                        {run, batch.last, Parameter::Blob(blob_)}));
  RETURN_IF_ERROR(Write("UPDATE run SET rows = ?2 WHERE id = ?1", {run, batch.last + 1}));
  known->next = batch.last + 1;
  return absl::OkStatus();
}

absl::Status Store::AppendReplays(int64_t run, const model::Batch& batch) {
  ASSIGN_OR_RETURN(Known* const known, Find(Owner::kRun, run));
  ASSIGN_OR_RETURN(const int64_t next,
                   writer_.SelectInteger("SELECT replays FROM run WHERE id = ?1", {run}));
  if (batch.first != static_cast<uint64_t>(next)) {
    return absl::InvalidArgumentError(
        absl::StrCat("run ", run, " has ", next, " replays; these begin at ", batch.first));
  }
  RETURN_IF_ERROR(CheckShapes(batch, *known));
  EncodeBatch(batch, blob_, absl::StrCat(kReplaysOf, known->owner));
  RETURN_IF_ERROR(Write("INSERT INTO replay_batch(run, last_index, data) VALUES(?1, ?2, ?3)",
                        {run, batch.last, Parameter::Blob(blob_)}));
  return Write("UPDATE run SET replays = ?2 WHERE id = ?1", {run, batch.last + 1});
}

absl::Status Store::AddRewind(int64_t run, const model::Rewind& rewind) {
  return WriteOne(
      "INSERT INTO run_rewind(run, first_step, rows, replays) "
      "SELECT id, ?2, ?3, ?4 FROM run WHERE id = ?1",
      run, {run, rewind.first_step, rewind.rows, rewind.replays});
}

absl::Status Store::SetPosition(int64_t run, const RunPosition& position) {
  return WriteOne(
      "UPDATE run SET last_step = ?2, furthest_step = ?3, attempt = ?4, step_base = ?5 "
      "WHERE id = ?1",
      run, {run, position.last_step, position.furthest_step, position.attempt, position.step_base});
}

absl::Status Store::CloseRun(int64_t run, model::RunState state, int32_t exit_code,
                             absl::string_view reason, int64_t now_us) {
  if (state == model::RunState::kRunning) {
    return absl::InvalidArgumentError("kRunning is not an end state");
  }
  ASSIGN_OR_RETURN(const int64_t unfinished,
                   writer_.SelectInteger("SELECT count(*) FROM stream WHERE run = ?1 AND "
                                         "(state = ?2 OR aggregated_seq < durable_seq)",
                                         {run, static_cast<int64_t>(model::StreamState::kLive)}));
  if (unfinished != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(unfinished, " streams are live or have rows that are not aggregated"));
  }
  runs_.erase(run);
  return WriteOne(
      "UPDATE run SET state = ?2, exit_code = ?3, reason = ?4, ended_us = ?5 WHERE id = ?1", run,
      {run, static_cast<int64_t>(state), exit_code, reason, now_us});
}

absl::Status Store::Rename(int64_t run, absl::string_view name) {
  return WriteOne("UPDATE run SET name = ?2 WHERE id = ?1", run, {run, name});
}

absl::Status Store::AddReason(int64_t run, int64_t ended_us, absl::string_view why) {
  return Write(
      "UPDATE run SET reason = ?3 || iif(reason = '', '', '; ' || reason) "
      "WHERE id = ?1 AND ended_us = ?2 AND state IN (?4, ?5)",
      {run, ended_us, why, static_cast<int64_t>(model::RunState::kFailed),
       static_cast<int64_t>(model::RunState::kCrashed)});
}

absl::StatusOr<Store::Known*> Store::Find(Owner owner, int64_t id) {
  RETURN_IF_ERROR(CheckInTransaction());
  const bool of_stream = owner == Owner::kStream;
  auto& all = of_stream ? streams_ : runs_;
  const auto found = all.find(id);
  if (found != all.end()) return &found->second;
  Known known;
  {
    Query owner_row = writer_.Select(of_stream ? kSelectStreamOwner : kSelectRunOwner, {id});
    if (!owner_row.Next()) {
      RETURN_IF_ERROR(owner_row.status());
      return absl::NotFoundError(absl::StrCat("nothing in the store has the id ", id));
    }
    known.owner = owner_row.Text(0);
    known.next = owner_row.Unsigned(1) + (of_stream ? 1 : 0);
  }
  Query shapes =
      writer_.Select(of_stream ? "SELECT shape, width FROM shape WHERE stream = ?1 ORDER BY shape"
                               : "SELECT shape, width FROM run_shape WHERE run = ?1 ORDER BY shape",
                     {id});
  while (shapes.Next()) known.SetWidth(shapes.Unsigned(0), shapes.Unsigned(1));
  RETURN_IF_ERROR(shapes.status());
  return &all.insert_or_assign(id, std::move(known)).first->second;
}

absl::Status Store::Define(Owner owner, int64_t id, uint32_t shape,
                           absl::Span<const std::string> keys) {
  if (shape == 0 || shape > kMaxShapeId || keys.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("shape ", shape, " with ", keys.size(), " keys"));
  }
  ASSIGN_OR_RETURN(Known* const known, Find(owner, id));
  const bool of_stream = owner == Owner::kStream;
  const std::string blob = EncodeKeys(keys, known->owner);
  if (known->WidthOf(shape) == 0) {
    RETURN_IF_ERROR(
        Write(of_stream ? "INSERT INTO shape(stream, shape, width, keys) VALUES(?1, ?2, ?3, ?4)"
                        : "INSERT INTO run_shape(run, shape, width, keys) VALUES(?1, ?2, ?3, ?4)",
              {id, shape, keys.size(), Parameter::Blob(blob)}));
    known->SetWidth(shape, keys.size());
    return absl::OkStatus();
  }
  Query query =
      writer_.Select(of_stream ? "SELECT keys FROM shape WHERE stream = ?1 AND shape = ?2"
                               : "SELECT keys FROM run_shape WHERE run = ?1 AND shape = ?2",
                     {id, shape});
  if (!query.Next()) return query.status();
  // A shape that was stored before the primary was chosen has no owner.
  if (query.Bytes(0) == blob || query.Bytes(0) == EncodeKeys(keys)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shape ", shape, " is defined already, with other keys"));
}

absl::Status Store::CheckFits(const model::Batch& batch, const Known& known) {
  if (batch.first > known.next) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows from ", batch.first, " on, where ", known.next, " is the next: a gap"));
  }
  return CheckShapes(batch, known);
}

absl::Status Store::CheckShapes(const model::Batch& batch, const Known& known) {
  for (const model::Block& block : batch.blocks) {
    if (block.shape == 0 || block.rows() == 0) continue;
    const uint32_t width = known.WidthOf(block.shape);
    if (width != 0 && width == block.width()) continue;
    return absl::InvalidArgumentError(
        width == 0 ? absl::StrCat("rows of shape ", block.shape, ", which is not defined")
                   : absl::StrCat("rows of shape ", block.shape, " with ", block.width(),
                                  " values; it has ", width, " keys"));
  }
  return absl::OkStatus();
}

void Store::Known::SetWidth(uint64_t shape, uint64_t width) {
  if (widths.size() <= shape) widths.resize(shape + 1);
  widths[shape] = static_cast<uint32_t>(width);
}

}  // namespace ranklog::storage
