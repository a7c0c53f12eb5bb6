#include "service/storage/recovery/salvage.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <system_error>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/storage/database/store_file.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

namespace fs = std::filesystem;

// A durable_seq this far above the last found row is damaged itself.
constexpr uint64_t kMaxLostTail = 1'000'000'000;
constexpr uint64_t kRowsPerCommit = 100'000;
constexpr uint64_t kMaxPaddedPages = uint64_t{1} << 28;

// The first position that was lost in this store, not before it was made.
uint64_t FirstOf(const Remains::Stream& found) {
  const uint64_t gone = found.stream.losses.with_store;
  return found.batches.empty() ? gone + 1 : std::min(gone + 1, found.batches.begin()->first);
}

// The number of rows after `last`, up to durable_seq, that no batch has.
uint64_t LostTail(const Remains::Stream& found, uint64_t last) {
  const uint64_t durable = found.stream.durable_seq;
  return durable > last && durable - last <= kMaxLostTail ? durable - last : 0;
}

Salvaged::Stream Count(const Remains::Stream& found) {
  Salvaged::Stream counts;
  counts.key = found.stream.key;
  counts.run_id = found.run.run_id;
  uint64_t next = FirstOf(found);
  for (const auto& [first, batch] : found.batches) {
    if (batch.last < next) continue;
    if (first > next) counts.lost_rows += first - next;
    counts.saved_rows += batch.last + 1 - std::max(first, next);
    next = batch.last + 1;
  }
  counts.lost_rows += LostTail(found, next - 1);
  return counts;
}

// Appends the rows to `stream` of `store`, in an open transaction. Returns the last position.
absl::StatusOr<uint64_t> SaveRows(Remains& remains, const Remains::Stream& found, int64_t stream,
                                  absl::FunctionRef<void(uint64_t rows)> saved, Store& store) {
  for (const auto& [shape, keys] : found.keys) {
    if (keys.has_value()) RETURN_IF_ERROR(store.DefineShape(stream, shape, *keys));
  }
  uint64_t next = FirstOf(found);
  uint64_t uncommitted = 0;
  for (const auto& [first, where] : found.batches) {
    if (where.last < next) continue;
    ASSIGN_OR_RETURN(const model::Batch batch, remains.Read(found, where));
    if (first > next) RETURN_IF_ERROR(store.SkipTo(stream, first - 1));
    RETURN_IF_ERROR(store.Append(stream, batch).status());
    next = where.last + 1;
    saved(batch.rows());
    uncommitted += batch.rows();
    if (uncommitted > kRowsPerCommit) {
      uncommitted = 0;
      RETURN_IF_ERROR(store.Commit());
      RETURN_IF_ERROR(store.Begin());
    }
  }
  return next - 1;
}

// The items get new numbers, because merged ones have gaps between theirs. The lost ones are last.
absl::Status SaveItems(const Remains::Stream& found, int64_t stream, uint64_t rows, Store& store) {
  uint64_t last = found.stream.lost_items;
  RETURN_IF_ERROR(store.SkipItemsTo(stream, last));
  for (const auto& [id, item] : found.items) {
    model::Item saved = item;
    saved.seq = last += item.count;
    saved.after_row = std::min(item.after_row, rows);
    RETURN_IF_ERROR(store.AppendItems(stream, {saved}).status());
  }
  // Those of console lines, which are not saved, and of an import, which only take numbers.
  const uint64_t all = std::max(found.stream.durable_item, last);
  const uint64_t empty = std::min(found.stream.console_items, all - last);
  if (empty > 0) {
    const model::Item item{.seq = last + empty,
                           .count = empty,
                           .after_row = rows,
                           .kind = model::Item::Kind::kConsole};
    RETURN_IF_ERROR(store.AppendItems(stream, {item}).status());
  }
  return store.SkipItemsTo(stream, found.stream.durable_item);
}

absl::Status SaveEnd(const model::Stream& old, int64_t stream, Store& store) {
  const int64_t ended_us = old.ended_us != 0 ? old.ended_us : absl::ToUnixMicros(absl::Now());
  if (old.state == model::StreamState::kFinished) {
    return store.EndStream(stream, old.state, old.exit_code, "", ended_us);
  }
  const bool ran = old.state == model::StreamState::kLive || old.reason.empty();
  return store.EndStream(stream, model::StreamState::kCrashed, old.exit_code,
                         ran ? "the store was damaged while the rank was running" : old.reason,
                         ended_us);
}

model::Session SessionOf(const Remains::Stream& found, uint64_t first_seq) {
  model::Session session{.stream = found.stream.key,
                         .settings = found.run.settings,
                         .identity = found.stream.identity,
                         .first_seq = first_seq,
                         .launch = found.stream.launch};
  session.stream.job_id = found.stream.job_id;
  session.peer = found.stream.peer;
  // The time of its own Init(), which distinguishes the processes of a rank.
  if (found.stream.init_us != 0) session.settings.start_time_us = found.stream.init_us;
  return session;
}

RunAssignment AssignmentOf(const Remains::Stream& found, bool primary) {
  return {.run_id = found.run.run_id,
          .name = found.run.name,
          .primary_rank = found.run.primary_rank,
          .primary = primary,
          .local_only = found.run.local_only,
          .primary_chosen = found.run.primary_chosen,
          .refused = found.run.refused,
          .notice = found.stream.notice,
          .warns = found.stream.warns};
}

// A reader of a stream waits for the rows up to its durable_seq. So rows after the last readable
// one are counted as lost in another stream of the rank, which has no rows.
absl::Status SaveLostTail(const Remains::Stream& found, uint64_t rows, Store& store) {
  const model::Stream& old = found.stream;
  model::Session session = SessionOf(found, rows + 1);
  session.stream.incarnation = ~session.stream.incarnation;
  ASSIGN_OR_RETURN(const model::Stream stream,
                   store.Attach(session, AssignmentOf(found, /*primary=*/false), old.started_us));
  return SaveEnd(old, stream.id, store);
}

absl::Status Save(Remains& remains, const Remains::Stream& found,
                  absl::FunctionRef<void(uint64_t rows)> saved, Store& store) {
  const model::Stream& old = found.stream;
  RETURN_IF_ERROR(store.Begin());
  ASSIGN_OR_RETURN(const model::Stream stream,
                   store.Attach(SessionOf(found, FirstOf(found)), AssignmentOf(found, old.primary),
                                old.started_us));
  RETURN_IF_ERROR(store.AddDelivery(stream.run, "local"));
  ASSIGN_OR_RETURN(const uint64_t last, SaveRows(remains, found, stream.id, saved, store));
  RETURN_IF_ERROR(SaveItems(found, stream.id, last, store));
  RETURN_IF_ERROR(store.SetProgress(stream.id, old.passed_step));
  RETURN_IF_ERROR(store.SetAttempt(stream.id, old.attempt, old.began_anew));
  RETURN_IF_ERROR(store.SetLosses(stream.id, old.losses));
  if (old.joins) {
    RETURN_IF_ERROR(store.SetJoined(stream.id, old.joined_seq, old.joined, old.joined_late));
  }
  RETURN_IF_ERROR(SaveEnd(old, stream.id, store));
  if (const uint64_t tail = LostTail(found, last); tail != 0) {
    RETURN_IF_ERROR(SaveLostTail(found, tail, store));
  }
  return store.Commit();
}

uint64_t BytesOf(const std::string& path) {
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  return error ? 0 : bytes;
}

// The bytes that every store's header has, by offset; see schema.md.
constexpr struct {
  std::streamoff at;
  absl::string_view bytes;
} kHeader[] = {
    {0, absl::string_view("SQLite format 3\0\x10\0\x02\x02\0\x40\x20\x20", 24)},
    {44, absl::string_view("\0\0\0\x04", 4)},  // the schema's format
    {56, absl::string_view("\0\0\0\x01", 4)},  // UTF-8
};

// Repairs two errors for which SQLite refuses a file: wrong constants in the header, and a file
// shorter than its pages. The missing pages are filled with zeros and then count as damaged.
void Mend(const std::string& path) {
  if (BytesOf(path) < kPageBytes) return;
  char counted[4] = {};
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    for (const auto& [at, bytes] : kHeader) {
      file.seekp(at).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    }
    if (!file.seekg(28).read(counted, sizeof counted)) return;
  }
  uint64_t pages = 0;
  for (const char byte : counted) pages = pages << 8 | static_cast<uint8_t>(byte);
  // A damaged page count must not make a file of terabytes.
  if (pages * kPageBytes <= BytesOf(path) || pages > kMaxPaddedPages) return;
  std::error_code error;
  fs::resize_file(path, pages * kPageBytes, error);  // a hole
}

// Copies the store with its write-ahead log, and the file alone, because the log may be the damaged
// part.
absl::StatusOr<std::vector<std::string>> Copy(const std::string& path, const std::string& scratch) {
  const std::string log = path + "-wal";
  const uint64_t log_bytes = BytesOf(log);
  const uint64_t needed = log_bytes == 0 ? BytesOf(path) : 2 * BytesOf(path) + log_bytes;
  std::error_code error;
  const fs::space_info space = fs::space(scratch, error);
  if (!error && space.available < needed) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a working copy of ", path, " needs ", needed >> 20, " MiB, and ", scratch,
                     " has ", space.available >> 20,
                     " MiB free; free space there, or run `ranklog recover` with --to on a larger "
                     "disk"));
  }
  std::vector<std::string> copies = {scratch + "/with-log.db"};
  if (log_bytes != 0) {
    fs::copy_file(log, copies[0] + "-wal", error);
    copies.push_back(scratch + "/without-log.db");
  }
  for (const std::string& copy : copies) {
    if (!error) fs::copy_file(path, copy, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("copy ", path, " to ", scratch, ": ", error.message()));
    }
    Mend(copy);
  }
  return copies;
}

}  // namespace

uint64_t Salvaged::saved_rows() const {
  uint64_t sum = 0;
  for (const Stream& stream : streams) sum += stream.saved_rows;
  return sum;
}

uint64_t Salvaged::lost_rows() const {
  uint64_t sum = 0;
  for (const Stream& stream : streams) sum += stream.lost_rows;
  return sum;
}

absl::StatusOr<Salvaged> Salvage(const std::string& path, const SalvageOptions& options) {
  const std::string& to = options.to;
  std::error_code error;
  if (!fs::exists(path, error)) return absl::NotFoundError(absl::StrCat(path, " does not exist"));
  if (!to.empty() && fs::exists(absl::StrCat(to, "/", kStoreFile), error)) {
    return absl::AlreadyExistsError(absl::StrCat(to, " already has a store"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> copies, Copy(path, options.scratch));
  absl::StatusOr<Remains> remains = Remains::Find(copies, options.reading);
  if (!remains.ok()) {
    return absl::Status(remains.status().code(),
                        absl::StrCat(path, ": ", remains.status().message()));
  }
  if (remains->streams().empty() && remains->damaged_records() != 0) {
    return absl::DataLossError(absl::StrCat(path, ": none of its ", remains->damaged_records(),
                                            " records belongs to a readable run"));
  }
  Salvaged salvaged;
  salvaged.damaged_records = remains->damaged_records();
  for (const Remains::Stream& found : remains->streams()) salvaged.streams.push_back(Count(found));
  if (to.empty()) return salvaged;
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Open(to, {}));
  uint64_t saved = 0;
  const auto tell = [&, total = salvaged.saved_rows()](uint64_t rows) {
    saved += rows;
    if (options.saving != nullptr) options.saving(saved, total);
  };
  for (const Remains::Stream& found : remains->streams()) {
    RETURN_IF_ERROR(Save(*remains, found, tell, *store));
  }
  return salvaged;
}

}  // namespace ranklog::storage
