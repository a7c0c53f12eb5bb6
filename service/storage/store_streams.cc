// Writes what a stream brings: shapes, rows, items, and its end.

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

using model::StreamState;

// A larger config or summary is not merged, because each merge writes it again.
constexpr size_t kMaxMergedBytes = 64 << 10;
// Items of a stream whose keys a new one may set again: bounds the time. A stream with up to this
// many keys keeps one item per key at most.
constexpr int64_t kReplacedAmong = 1024;

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

absl::StatusOr<uint64_t> Store::AppendItems(int64_t stream, absl::Span<const model::Item> items) {
  RETURN_IF_ERROR(CheckInTransaction());
  int64_t run = 0;
  uint64_t durable = 0;
  uint64_t durable_rows = 0;
  int64_t begun_step = -1;
  {
    Query query = writer_.Select(
        "SELECT run, durable_item, durable_seq, begun_step FROM stream WHERE id = ?1", {stream});
    if (!query.Next()) {
      RETURN_IF_ERROR(query.status());
      return absl::NotFoundError(absl::StrCat("no stream in the store has the id ", stream));
    }
    run = query.Integer(0);
    durable = query.Unsigned(1);
    durable_rows = query.Unsigned(2);
    begun_step = query.Integer(3);
  }
  std::vector<model::Item> fresh;
  uint64_t last = durable;
  uint64_t unreadable = 0;
  uint64_t console = 0;
  for (const model::Item& item : items) {
    if (item.seq <= durable) continue;
    if (item.seq - item.count != last) {
      return absl::InvalidArgumentError(absl::StrCat("item ", item.seq, " came after item ", last));
    }
    if (item.after_row > durable_rows) {
      return absl::InvalidArgumentError(absl::StrCat("item ", item.seq, " came before row ",
                                                     item.after_row, ", which precedes it"));
    }
    last = item.seq;
    if (item.kind == model::Item::Kind::kUnreadable) {
      ++unreadable;
      continue;
    }
    // A new process counts its steps from the start. The run's earlier steps came before the item.
    model::Item placed = item;
    placed.before_step = std::max(placed.before_step, begun_step + 1);
    for (auto& [key, step] : placed.before_steps) step = std::max(step, begun_step + 1);
    if (fresh.empty() || !fresh.back().Absorb(placed)) fresh.push_back(std::move(placed));
  }
  for (model::Item& item : fresh) {
    if (item.kind == model::Item::Kind::kConsole) console += item.count;
    RETURN_IF_ERROR(item.kind == model::Item::Kind::kConsole
                        ? AppendConsole(run, stream, item)
                        : AppendItem(run, stream, std::move(item)));
  }
  if (last == durable) return durable;
  RETURN_IF_ERROR(
      Write("UPDATE stream SET durable_item = ?2, lost_items = lost_items + ?3, "
            "console_items = console_items + ?4 WHERE id = ?1",
            {stream, last, unreadable, console}));
  return last;
}

absl::Status Store::AppendItem(int64_t run, int64_t stream, model::Item item) {
  const auto kind = static_cast<int64_t>(item.kind);
  int64_t merged = 0;  // the item of the run that `item` replaces
  std::string document;
  {
    // Only with the run's last item of this kind: then no other stream's item comes between.
    Query last = writer_.Select(
        "SELECT id, stream, count, data, called FROM item WHERE run = ?1 AND kind = ?2 "
        "ORDER BY id DESC LIMIT 1",
        {run, kind});
    if (last.Next() && last.Integer(1) == stream && last.Bytes(3).size() <= kMaxMergedBytes) {
      absl::StatusOr<model::Item> both = DecodeItem(kind, last.Bytes(3), last.Bytes(4));
      if (both.ok()) both->count = last.Unsigned(2);
      if (both.ok() && both->Absorb(item)) {
        document = EncodeItem(*both);
        if (document == last.Bytes(3)) {
          // Nothing changes, so no destination needs to read it again.
          return Write(
              "UPDATE item SET seq = ?2, count = ?3, called = ?4 WHERE id = ?1",
              {last.Integer(0), both->seq, both->count, Parameter::Blob(EncodeCalled(*both))});
        }
        if (document.size() <= kMaxMergedBytes) {
          merged = last.Integer(0);
          item = *std::move(both);
        }
      }
    }
    RETURN_IF_ERROR(last.status());
  }
  std::vector<ReplacedItem> replaced;
  if (merged == 0) {
    ASSIGN_OR_RETURN(replaced, TakeReplacedKeys(stream, &item));
    document = EncodeItem(item);
  } else {
    replaced = {{merged, ""}};
  }
  const std::string called = EncodeCalled(item);
  // Before others are deleted, so that the id is new: destinations remember ids.
  RETURN_IF_ERROR(
      Write("INSERT INTO item(run, stream, seq, count, after_row, time_us, kind, data, called) "
            "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            {run, stream, item.seq, item.count, item.after_row, item.time_us, kind,
             Parameter::Blob(document), Parameter::Blob(called)}));
  for (const ReplacedItem& old : replaced) {
    RETURN_IF_ERROR(old.document.empty() ? Write("DELETE FROM item WHERE id = ?1", {old.id})
                                         : Write("UPDATE item SET data = ?2 WHERE id = ?1",
                                                 {old.id, Parameter::Blob(old.document)}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<Store::ReplacedItem>> Store::TakeReplacedKeys(int64_t stream,
                                                                         model::Item* item) {
  const auto kind = static_cast<int64_t>(item->kind);
  std::vector<ReplacedItem> replaced;
  if (item->kind == model::Item::Kind::kMetric || item->IsSingle()) return replaced;
  Query earlier = writer_.Select(
      "SELECT id, count, data, called FROM item "
      "WHERE stream = ?1 AND kind = ?2 AND length(data) <= ?3 ORDER BY seq DESC LIMIT ?4",
      {stream, kind, static_cast<int64_t>(kMaxMergedBytes), kReplacedAmong});
  while (earlier.Next()) {
    absl::StatusOr<model::Item> old = DecodeItem(kind, earlier.Bytes(2), earlier.Bytes(3));
    if (!old.ok()) continue;  // damaged, which readers report
    const size_t keys = old->object.size();
    for (const auto& [key, value] : item->object.items()) {
      old->object.erase(key);
      old->before_steps.erase(key);
      old->called_us_of.erase(key);
    }
    if (old->object.size() == keys) continue;
    if (old->object.empty()) item->count += earlier.Unsigned(1);
    replaced.push_back({earlier.Integer(0), old->object.empty() ? "" : EncodeItem(*old)});
  }
  RETURN_IF_ERROR(earlier.status());
  return replaced;
}

absl::Status Store::SkipItemsTo(int64_t stream, uint64_t seq) {
  return WriteOne(
      "UPDATE stream SET lost_items = lost_items + max(0, ?2 - durable_item), "
      "durable_item = max(durable_item, ?2) WHERE id = ?1",
      stream, {stream, seq});
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
  for (const model::LossCounter& counter : model::kLossCounters) {
    if (!counter.IsSetByRank()) continue;
    values.emplace_back(losses.*counter.count);
    absl::StrAppend(&columns, columns.empty() ? "" : ", ", "lost_", counter.name, " = ?",
                    values.size());
  }
  values.emplace_back(losses.items);
  absl::StrAppend(&columns, ", refused_items = ?", values.size());
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
