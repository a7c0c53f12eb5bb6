#include "service/storage/store_reader.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/database/migrations.h"
#include "service/storage/database/store_file.h"
#include "service/storage/directories/file_system.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/damage.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"
#include "service/storage/rows/source_rows.h"

namespace ranklog::storage {
namespace {

constexpr char kSelectItem[] =
    "SELECT id, stream, seq, count, after_row, time_us, kind, data, called FROM item ";

}  // namespace

absl::StatusOr<std::unique_ptr<StoreReader>> StoreReader::Open(const std::string& state_dir,
                                                               const char* vfs) {
  return OpenIn(state_dir, Database::Mode::kReadOnly, vfs);
}

absl::StatusOr<std::unique_ptr<StoreReader>> StoreReader::OpenWithoutTrace(
    const std::string& state_dir) {
  return OpenIn(state_dir, Database::Mode::kReadWithoutTrace, nullptr);
}

absl::StatusOr<std::unique_ptr<StoreReader>> StoreReader::OpenIn(const std::string& state_dir,
                                                                 Database::Mode mode,
                                                                 const char* vfs) {
  const std::string path = absl::StrCat(state_dir, "/", kStoreFile);
  if (access(path.c_str(), F_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("no store at ", path));
  }
  for (const char* suffix : {"", "-wal", "-shm"}) {
    RETURN_IF_ERROR(CheckReadFile(path + suffix));  // opening a pipe would block
  }
  ASSIGN_OR_RETURN(Database database, Database::Open(path, mode, vfs));
  RETURN_IF_ERROR(database.Execute("PRAGMA mmap_size = 0; PRAGMA temp_store = MEMORY"));
  RETURN_IF_ERROR(CheckReadable(database, static_cast<int64_t>(Migrations().size())));
  return std::unique_ptr<StoreReader>(new StoreReader(std::move(database)));
}

absl::StatusOr<std::vector<model::Run>> StoreReader::Runs() {
  std::vector<model::Run> runs;
  Query query = database_.Select(absl::StrCat(kSelectRun, "ORDER BY run.id DESC"));
  while (query.Next()) {
    ASSIGN_OR_RETURN(runs.emplace_back(), RunOf(query));
  }
  RETURN_IF_ERROR(query.status());
  return runs;
}

absl::StatusOr<model::Run> StoreReader::GetRun(int64_t run) {
  Query query = database_.Select(absl::StrCat(kSelectRun, "WHERE run.id = ?1"), {run});
  if (query.Next()) return RunOf(query);
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat("no run in the store has the id ", run));
}

absl::StatusOr<std::vector<model::Stream>> StoreReader::Streams(int64_t run) {
  return StreamsOf(database_.Select(
      absl::StrCat(SelectStream(),
                   "WHERE stream.run = ?1 "
                   "ORDER BY stream.rank, stream.thread, stream.started_us, stream.id"),
      {run}));
}

absl::Status StoreReader::UpdateStreams(int64_t run, std::vector<model::Stream>* streams) {
  size_t read = 0;
  bool same = true;
  bool more = false;
  {
    Query query = database_.Select(
        "SELECT id, state, ended_us, durable_seq, passed_step FROM stream WHERE run = ?1 "
        "ORDER BY rank, thread, started_us, id",
        {run});
    for (; query.Next(); ++read) {
      more = read >= streams->size();
      if (more) break;
      model::Stream& stream = (*streams)[read];
      same = stream.id == query.Integer(0) &&
             static_cast<int64_t>(stream.state) == query.Integer(1) &&
             stream.ended_us == query.Integer(2);
      if (!same) break;
      stream.durable_seq = query.Unsigned(3);
      stream.passed_step = query.Integer(4);
    }
    RETURN_IF_ERROR(query.status());
  }
  if (same && !more && read == streams->size()) return absl::OkStatus();
  ASSIGN_OR_RETURN(*streams, Streams(run));
  return absl::OkStatus();
}

absl::StatusOr<model::Stream> StoreReader::StreamOfRing(const model::StreamKey& key) {
  return ReadStreamOfRing(database_, key);
}

absl::StatusOr<std::vector<model::Stream>> StoreReader::LiveStreams() {
  return StreamsOf(database_.Select(
      absl::StrCat(SelectStream(),
                   "WHERE stream.run IN (SELECT id FROM run WHERE state = ?1) ORDER BY stream.id"),
      {static_cast<int64_t>(model::RunState::kRunning)}));
}

absl::StatusOr<std::vector<int64_t>> StoreReader::RunsToJoin(int64_t ended_us) {
  Query query = database_.Select(
      "SELECT id FROM run WHERE local_only AND primary_chosen AND (state = ?1 OR ended_us > ?2) "
      "AND EXISTS(SELECT 1 FROM stream WHERE stream.run = run.id AND joined = 0)",
      {static_cast<int64_t>(model::RunState::kRunning), ended_us});
  std::vector<int64_t> runs;
  while (query.Next()) runs.push_back(query.Integer(0));
  RETURN_IF_ERROR(query.status());
  return runs;
}

absl::StatusOr<std::vector<model::Stream>> StoreReader::StreamsOf(Query query) {
  std::vector<model::Stream> streams;
  while (query.Next()) streams.push_back(StreamOf(query));
  RETURN_IF_ERROR(query.status());
  return streams;
}

absl::StatusOr<std::vector<std::vector<std::string>>> StoreReader::Shapes(int64_t stream) {
  ASSIGN_OR_RETURN(const Owner owner, OwnerOf(kSelectStreamOwner, stream));
  return ShapesOf(
      database_.Select("SELECT shape, keys FROM shape WHERE stream = ?1 ORDER BY shape", {stream}),
      owner.seal);
}

absl::StatusOr<std::vector<std::vector<std::string>>> StoreReader::RunShapes(int64_t run) {
  ASSIGN_OR_RETURN(const Owner owner, OwnerOf(kSelectRunOwner, run));
  return ShapesOf(
      database_.Select("SELECT shape, keys FROM run_shape WHERE run = ?1 ORDER BY shape", {run}),
      owner.seal);
}

absl::StatusOr<std::vector<std::vector<std::string>>> StoreReader::ShapesOf(
    Query query, absl::string_view owner) {
  std::vector<std::vector<std::string>> shapes(1);
  while (query.Next()) {
    const uint64_t shape = query.Unsigned(0);
    if (shape < shapes.size() || shape > kMaxShapeId) {
      return absl::DataLossError(absl::StrCat("a shape ", shape, " in ", database_.path()));
    }
    shapes.resize(shape + 1);
    ASSIGN_OR_RETURN(shapes.back(), DecodeKeys(query.Bytes(1), owner));
  }
  RETURN_IF_ERROR(query.status());
  return shapes;
}

absl::StatusOr<std::vector<StoredBatch>> StoreReader::StreamBatches(int64_t stream,
                                                                    uint64_t after_seq,
                                                                    size_t max_bytes) {
  ASSIGN_OR_RETURN(Owner owner, OwnerOf(kSelectStreamOwner, stream));
  ++owner.next;  // rows of streams count from 1
  return BatchesOf(database_.Select("SELECT id, stream, last_seq, data FROM stream_batch "
                                    "WHERE stream = ?1 AND last_seq > ?2 ORDER BY last_seq",
                                    {stream, after_seq}),
                   owner, after_seq + 1, max_bytes, RefuseSource);
}

absl::StatusOr<std::vector<StoredBatch>> StoreReader::RunBatches(int64_t run, uint64_t from_index,
                                                                 size_t max_bytes) {
  ASSIGN_OR_RETURN(const Owner owner, OwnerOf(kSelectRunOwner, run));
  return BatchesOfRun(database_.Select("SELECT id, run, last_index, data FROM run_batch "
                                       "WHERE run = ?1 AND last_index >= ?2 ORDER BY last_index",
                                       {run, from_index}),
                      owner, run, from_index, max_bytes);
}

absl::StatusOr<std::vector<StoredBatch>> StoreReader::ReplayBatches(int64_t run,
                                                                    uint64_t from_index,
                                                                    size_t max_bytes) {
  ASSIGN_OR_RETURN(const Owner owner, OwnerOf(kSelectReplayOwner, run));
  return BatchesOfRun(database_.Select("SELECT id, run, last_index, data FROM replay_batch "
                                       "WHERE run = ?1 AND last_index >= ?2 ORDER BY last_index",
                                       {run, from_index}),
                      owner, run, from_index, max_bytes);
}

absl::StatusOr<std::vector<model::Rewind>> StoreReader::Rewinds(int64_t run) {
  std::vector<model::Rewind> rewinds;
  Query query = database_.Select(
      "SELECT first_step, rows, replays FROM run_rewind WHERE run = ?1 ORDER BY id", {run});
  while (query.Next()) {
    rewinds.push_back({query.Integer(0), query.Unsigned(1), query.Unsigned(2)});
  }
  RETURN_IF_ERROR(query.status());
  return rewinds;
}

absl::StatusOr<StoreReader::Owner> StoreReader::OwnerOf(const char* sql, int64_t id) {
  Query query = database_.Select(sql, {id});
  if (query.Next()) {
    return Owner{query.Text(0), query.Unsigned(1), query.Unsigned(2) != 0 || pass_over_missing_};
  }
  RETURN_IF_ERROR(query.status());
  return absl::NotFoundError(absl::StrCat("nothing in the store has the id ", id));
}

absl::StatusOr<std::vector<StoredBatch>> StoreReader::BatchesOf(Query query, const Owner& owner,
                                                                uint64_t position, size_t max_bytes,
                                                                CompleteBlock complete) {
  const auto missing = [&] {
    return absl::DataLossError(
        absl::StrCat("the rows from ", position, " on are missing in ", database_.path()));
  };
  std::vector<StoredBatch> batches;
  size_t bytes = 0;
  while (query.Next()) {
    if (bytes >= max_bytes && !batches.empty()) return batches;
    StoredBatch& stored = batches.emplace_back();
    stored.id = query.Integer(0);
    stored.owner = query.Integer(1);
    ASSIGN_OR_RETURN(stored.batch, DecodeBatch(query.Bytes(3), owner.seal, complete));
    bytes += model::BytesOf(stored.batch);
    if (stored.batch.last != query.Unsigned(2)) {
      return absl::DataLossError(
          absl::StrCat("batch ", stored.id, " in ", database_.path(), " is not where it belongs"));
    }
    if (stored.batch.first > position && !owner.gaps) return missing();
    position = stored.batch.last + 1;
  }
  RETURN_IF_ERROR(query.status());
  if (position < owner.next && !owner.gaps) return missing();
  return batches;
}

absl::StatusOr<std::vector<StoredBatch>> StoreReader::BatchesOfRun(Query query, const Owner& owner,
                                                                   int64_t run, uint64_t position,
                                                                   size_t max_bytes) {
  SourceRows sources(&database_, run);
  return BatchesOf(std::move(query), owner, position, max_bytes,
                   [&](model::Block& block) { return sources.Complete(block); });
}

absl::StatusOr<std::map<std::string, bool>> StoreReader::StagedFiles() {
  std::map<std::string, bool> files;
  Query query = database_.Select(
      "SELECT kind, data, called, "
      "EXISTS (SELECT 1 FROM delivery WHERE run = item.run AND kind <> 'local') AND NOT EXISTS "
      "(SELECT 1 FROM delivery WHERE run = item.run AND kind <> 'local' AND "
      "delivered_items < item.id) FROM item WHERE kind IN (?1, ?2)",
      {static_cast<int64_t>(model::Item::Kind::kArtifact),
       static_cast<int64_t>(model::Item::Kind::kRunFile)});
  while (query.Next()) {
    ASSIGN_OR_RETURN(const model::Item item,
                     DecodeItem(query.Integer(0), query.Bytes(1), query.Bytes(2)));
    const bool needed = query.Integer(3) == 0;
    for (const model::Item::StagedFile& file : item.StagedFiles()) {
      // A file may be in several items.
      files[file.name] |= needed;
    }
  }
  RETURN_IF_ERROR(query.status());
  return files;
}

absl::StatusOr<std::vector<model::StoredItem>> StoreReader::Items(int64_t run, int64_t after_id) {
  return ItemsOf(database_.Select(
      absl::StrCat(kSelectItem, "WHERE run = ?1 AND id > ?2 ORDER BY id"), {run, after_id}));
}

absl::StatusOr<std::vector<model::StoredItem>> StoreReader::Uploads(int64_t run, int64_t after_id) {
  return ItemsOf(database_.Select(
      absl::StrCat(kSelectItem, "WHERE run = ?1 AND id > ?2 AND kind IN (?3, ?4) ORDER BY id"),
      {run, after_id, static_cast<int64_t>(model::Item::Kind::kArtifact),
       static_cast<int64_t>(model::Item::Kind::kRunFile)}));
}

absl::StatusOr<std::vector<model::StoredItem>> StoreReader::ItemsOf(Query query) {
  std::vector<model::StoredItem> items;
  while (query.Next()) {
    model::StoredItem& stored = items.emplace_back();
    stored.id = query.Integer(0);
    stored.stream = query.Integer(1);
    ASSIGN_OR_RETURN(stored.item, DecodeItem(query.Integer(6), query.Bytes(7), query.Bytes(8)));
    stored.item.seq = query.Unsigned(2);
    stored.item.count = query.Unsigned(3);
    stored.item.after_row = query.Unsigned(4);
    stored.item.time_us = query.Integer(5);
  }
  RETURN_IF_ERROR(query.status());
  return items;
}

absl::StatusOr<std::vector<model::Delivery>> StoreReader::Deliveries(int64_t run) {
  return DeliveriesOf(database_.Select(
      absl::StrCat(kSelectDelivery, "WHERE delivery.run = ?1 ORDER BY kind"), {run}));
}

absl::StatusOr<std::vector<model::Delivery>> StoreReader::PendingDeliveries() {
  return DeliveriesOf(database_.Select(
      absl::StrCat(kSelectDelivery, "WHERE complete = 0 ORDER BY delivery.run, kind")));
}

absl::StatusOr<std::vector<model::Delivery>> StoreReader::DeliveriesOf(Query query) {
  std::vector<model::Delivery> deliveries;
  while (query.Next()) {
    ASSIGN_OR_RETURN(deliveries.emplace_back(), DeliveryOf(query));
  }
  RETURN_IF_ERROR(query.status());
  return deliveries;
}

absl::StatusOr<std::vector<model::DeadLetter>> StoreReader::DeadLetters(int64_t run) {
  std::vector<model::DeadLetter> letters;
  Query query = database_.Select(
      "SELECT id, run, kind, row, time_us, answer, content FROM dead_letter WHERE run = ?1 "
      "ORDER BY id",
      {run});
  while (query.Next()) {
    letters.push_back({query.Integer(0), query.Integer(1), query.Text(2), query.Unsigned(3),
                       query.Integer(4), query.Text(5), query.Text(6)});
  }
  RETURN_IF_ERROR(query.status());
  return letters;
}

absl::Status StoreReader::Check() { return CheckForDamage(database_); }

absl::StatusOr<int64_t> StoreReader::FileBytes() {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    struct stat info;
    if (stat(absl::StrCat(database_.path(), suffix).c_str(), &info) == 0) bytes += info.st_size;
  }
  return bytes;
}

absl::StatusOr<int64_t> StoreReader::UsedBytes() {
  return database_.SelectInteger(
      "SELECT (page_count - freelist_count) * page_size "
      "FROM pragma_page_count, pragma_freelist_count, pragma_page_size");
}

absl::StatusOr<std::vector<RemovableRun>> StoreReader::Removable(int64_t ended_by_us) {
  return RemovableRuns(database_, ended_by_us);
}

absl::StatusOr<uint64_t> StoreReader::RemovedThrough(const model::StreamKey& key) {
  ASSIGN_OR_RETURN(
      const int64_t seq,
      database_.SelectInteger("SELECT durable_seq FROM removed_stream WHERE incarnation = ?1 "
                              "AND rank = ?2 ORDER BY durable_seq DESC LIMIT 1",
                              {key.incarnation, key.rank}));
  return static_cast<uint64_t>(seq);
}

}  // namespace ranklog::storage
