#include "service/storage/salvage.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/storage/batch_codec.h"
#include "service/storage/documents.h"
#include "service/storage/records.h"
#include "service/storage/sqlite.h"
#include "service/storage/store.h"

namespace ranklog::storage {
namespace {

// A record takes at least so many bytes: bounds the ids to try where the last one is unreadable.
constexpr int64_t kMinRecordBytes = 32;
// A durable_seq this far above the last row that was found is itself damaged.
constexpr uint64_t kMaxLostTail = 1'000'000'000;
constexpr size_t kBytesPerCommit = 8 << 20;
constexpr uint64_t kMaxPaddedPages = uint64_t{1} << 28;

struct FoundBatch {
  size_t source;
  int64_t id;
  uint64_t last;
};

struct FoundStream {
  size_t source;
  model::Stream stream;
  model::Run run;
  std::string seal;
  std::map<uint64_t, FoundBatch> batches;  // by first position
};

using StreamName = std::pair<model::StreamKey, std::string>;  // with the run's id

class Salvager {
 public:
  // False: the tables cannot be read.
  bool AddSource(const std::string& path) {
    auto database = Database::Open(path, Database::Mode::kReadWrite, nullptr);
    if (!database.ok() || !database
                               ->SelectInteger("SELECT count(*) FROM pragma_table_info("
                                               "'stream_batch')")
                               .ok()) {
      return false;
    }
    sources_.push_back(std::make_unique<Database>(*std::move(database)));
    const size_t source = sources_.size() - 1;
    FindStreams(source);
    FindBatches(source);
    return true;
  }

  absl::StatusOr<Salvaged> Write(Store* store) {
    Salvaged result;
    for (auto& [name, found] : streams_) {
      Salvaged::Stream& stream = result.streams.emplace_back();
      stream.key = name.first;
      stream.run_id = name.second;
      RETURN_IF_ERROR(WriteStream(found, store, &stream));
    }
    result.lost_batches = lost_batches_;
    return result;
  }

 private:
  Database& Source(size_t source) { return *sources_[source]; }

  int64_t LastId(size_t source, const char* table) {
    auto last = Source(source).SelectInteger(
        absl::StrCat("SELECT id FROM ", table, " ORDER BY id DESC LIMIT 1"));
    const auto pages = Source(source).SelectInteger("PRAGMA page_count");
    const int64_t most = pages.value_or(0) * 4096 / kMinRecordBytes;
    if (absl::IsNotFound(last.status())) return 0;
    return last.ok() ? std::min(*last, most) : most;
  }

  void FindStreams(size_t source) {
    Database& database = Source(source);
    for (int64_t id = 1, last = LastId(source, "stream"); id <= last; ++id) {
      FoundStream found;
      found.source = source;
      {
        Query query = database.Select(absl::StrCat(kSelectStream, "WHERE stream.id = ?1"), {id});
        if (!query.Next()) continue;
        found.stream = StreamOf(query);
      }
      {
        Query query =
            database.Select(absl::StrCat(kSelectRun, "WHERE run.id = ?1"), {found.stream.run});
        if (!query.Next()) continue;
        absl::StatusOr<model::Run> run = RunOf(query);
        if (!run.ok()) continue;
        found.run = *std::move(run);
      }
      {
        Query query = database.Select(kSelectStreamOwner, {id});
        if (!query.Next()) continue;
        found.seal = query.Text(0);
      }
      const StreamName name(found.stream.key, found.run.run_id);
      ids_[{source, id}] = name;
      streams_.try_emplace(name, std::move(found));
    }
  }

  void FindBatches(size_t source) {
    Database& database = Source(source);
    for (int64_t id = 1, last = LastId(source, "stream_batch"); id <= last; ++id) {
      Query query =
          database.Select("SELECT stream, last_seq, data FROM stream_batch WHERE id = ?1", {id});
      if (!query.Next()) {
        // An id that was never given is no loss: those are given one after the other.
        if (!query.status().ok() && source == 0) ++lost_batches_;
        continue;
      }
      const auto named = ids_.find({source, query.Integer(0)});
      FoundStream* const found = named == ids_.end() ? nullptr : &streams_.at(named->second);
      const absl::StatusOr<model::Batch> batch =
          found == nullptr ? absl::StatusOr<model::Batch>(absl::DataLossError("of no stream"))
                           : DecodeBatch(query.Bytes(2), found->seal);
      if (!batch.ok() || batch->last != query.Unsigned(1)) {
        if (source == 0) ++lost_batches_;
        continue;
      }
      found->batches.try_emplace(batch->first, FoundBatch{source, id, batch->last});
    }
  }

  // Counts only, where `store` is null.
  absl::Status WriteStream(FoundStream& found, Store* store, Salvaged::Stream* counts) {
    const model::Stream& old = found.stream;
    model::Stream stream;
    const int64_t now_us = absl::ToUnixMicros(absl::Now());
    if (store != nullptr) {
      RETURN_IF_ERROR(store->Begin());
      ASSIGN_OR_RETURN(stream,
                       store->Attach({old.key, found.run.settings, old.identity},
                                     {found.run.run_id, found.run.name, found.run.primary_rank,
                                      old.primary, found.run.local_only},
                                     old.started_us));
      RETURN_IF_ERROR(store->AddDelivery(stream.run, "local"));
      RETURN_IF_ERROR(CopyUpdates(found, stream.id, *store));
    }
    uint64_t next = 1;
    size_t bytes = 0;
    for (const auto& [first, where] : found.batches) {
      if (where.last < next) continue;
      if (store != nullptr) {
        ASSIGN_OR_RETURN(const model::Batch batch, Decode(where, found.seal, &bytes));
        if (!DefineShapes(found, batch, stream.id, *store).ok()) {
          ++lost_batches_;  // nobody knows what its numbers are
          continue;
        }
        if (first > next) RETURN_IF_ERROR(store->SkipTo(stream.id, first - 1));
        RETURN_IF_ERROR(store->Append(stream.id, batch).status());
        if (bytes > kBytesPerCommit) {
          bytes = 0;
          RETURN_IF_ERROR(store->Commit());
          RETURN_IF_ERROR(store->Begin());
        }
      }
      if (first > next) counts->lost_rows += first - next;
      counts->saved_rows += where.last + 1 - std::max(first, next);
      next = where.last + 1;
    }
    uint64_t tail = 0;
    if (old.durable_seq >= next && old.durable_seq - next < kMaxLostTail) {
      tail = old.durable_seq + 1 - next;
      counts->lost_rows += tail;
    }
    if (store == nullptr) return absl::OkStatus();
    if (tail != 0) RETURN_IF_ERROR(store->CountLost(stream.id, tail));
    RETURN_IF_ERROR(store->SetProgress(stream.id, old.passed_step));
    RETURN_IF_ERROR(store->SetLosses(stream.id, old.losses));
    const bool finished = old.state == model::StreamState::kFinished;
    RETURN_IF_ERROR(store->EndStream(
        stream.id, finished ? model::StreamState::kFinished : model::StreamState::kCrashed,
        old.exit_code,
        finished             ? ""
        : old.reason.empty() ? "it ran when its store was damaged"
                             : old.reason,
        old.ended_us != 0 ? old.ended_us : now_us));
    return store->Commit();
  }

  absl::StatusOr<model::Batch> Decode(const FoundBatch& where, const std::string& seal,
                                      size_t* bytes) {
    Query query =
        Source(where.source).Select("SELECT data FROM stream_batch WHERE id = ?1", {where.id});
    if (!query.Next()) return absl::DataLossError("a batch was readable a moment ago");
    *bytes += query.Bytes(0).size();
    return DecodeBatch(query.Bytes(0), seal);
  }

  // What a batch needs, from any source that has it.
  absl::Status DefineShapes(const FoundStream& found, const model::Batch& batch, int64_t stream,
                            Store& store) {
    for (const model::Block& block : batch.blocks) {
      if (block.shape == 0 || block.rows() == 0) continue;
      bool defined = false;
      for (const auto& [place, name] : ids_) {
        if (defined || name != StreamName(found.stream.key, found.run.run_id)) continue;
        Query query = Source(place.first)
                          .Select("SELECT keys FROM shape WHERE stream = ?1 AND shape = ?2",
                                  {place.second, block.shape});
        if (!query.Next()) continue;
        const auto keys = DecodeKeys(query.Bytes(0), found.seal);
        if (!keys.ok() || keys->size() != block.width()) continue;
        RETURN_IF_ERROR(store.DefineShape(stream, block.shape, *keys));
        defined = true;
      }
      if (!defined) return absl::DataLossError("a shape without keys");
    }
    return absl::OkStatus();
  }

  absl::Status CopyUpdates(const FoundStream& found, int64_t stream, Store& store) {
    for (int64_t id = 1, last = LastId(found.source, "run_update"); id <= last; ++id) {
      Query query = Source(found.source)
                        .Select(
                            "SELECT kind, data, time_us FROM run_update WHERE id = ?1 AND "
                            "stream = ?2",
                            {id, found.stream.id});
      if (!query.Next()) continue;
      const auto update = DecodeUpdate(query.Integer(0), query.Bytes(1));
      if (update.ok()) RETURN_IF_ERROR(store.Apply(stream, *update, query.Integer(2)));
    }
    return absl::OkStatus();
  }

  std::vector<std::unique_ptr<Database>> sources_;
  std::map<std::pair<size_t, int64_t>, StreamName> ids_;  // by source and its id there
  std::map<StreamName, FoundStream> streams_;
  uint64_t lost_batches_ = 0;
};

bool Copy(const std::string& from, const std::string& to) {
  std::error_code error;
  return std::filesystem::copy_file(from, to, error);
}

// Makes a file that was cut as long as its header says, for SQLite refuses one that is shorter. The
// pages of zeros that it gets are damaged ones like others.
void Pad(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  char header[32] = {};
  if (!file.read(header, sizeof header)) return;
  const auto number = [&header](size_t at, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = at; i < at + bytes; ++i) value = value << 8 | static_cast<uint8_t>(header[i]);
    return value;
  };
  const uint64_t page_size = number(16, 2);
  const uint64_t pages = number(28, 4);
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  // A page count that is itself damaged makes no file of terabytes.
  if (error || page_size < 512 || pages * page_size <= size || pages > kMaxPaddedPages) return;
  std::filesystem::resize_file(path, pages * page_size, error);  // a hole
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

absl::StatusOr<Salvaged> Salvage(const std::string& path, const std::string& scratch,
                                 const std::string& to) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no ", path));
  }
  if (!to.empty() && std::filesystem::exists(absl::StrCat(to, "/", kStoreFile), error)) {
    return absl::AlreadyExistsError(absl::StrCat("there is a store in ", to, " already"));
  }
  const std::string with_log = scratch + "/with-log.db";
  const std::string without_log = scratch + "/without-log.db";
  const bool has_log = Copy(path + "-wal", with_log + "-wal");
  if (!Copy(path, with_log) || (has_log && !Copy(path, without_log))) {
    return absl::ResourceExhaustedError(absl::StrCat("cannot copy ", path, " to ", scratch));
  }
  Pad(with_log);
  if (has_log) Pad(without_log);
  Salvager salvager;
  bool readable = salvager.AddSource(with_log);
  if (has_log) readable |= salvager.AddSource(without_log);
  if (!readable) {
    return absl::DataLossError(absl::StrCat("not even the tables of ", path, " can be read"));
  }
  std::unique_ptr<Store> store;
  if (!to.empty()) {
    ASSIGN_OR_RETURN(store, Store::Open(to, {}));
  }
  return salvager.Write(store.get());
}

}  // namespace ranklog::storage
