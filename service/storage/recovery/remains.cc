#include "service/storage/recovery/remains.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "service/storage/database/migrations.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/documents.h"
#include "service/storage/rows/records.h"

namespace ranklog::storage {
namespace {

constexpr char kStream[] = "stream";
constexpr char kBatch[] = "stream_batch";
constexpr char kItem[] = "item";

// The minimum size of a record. Bounds the ids to try if the last id cannot be read.
constexpr int64_t kMinRecordBytes = 32;

}  // namespace

absl::StatusOr<Remains> Remains::Find(const std::vector<std::string>& copies,
                                      const ProgressFn& progress) {
  Remains remains;
  for (const std::string& path : copies) {
    auto database = Database::Open(path, Database::Mode::kReadWrite, nullptr);
    if (!database.ok() ||
        !database->SelectInteger("SELECT count(*) FROM pragma_table_info('stream_batch')").ok()) {
      continue;
    }
    // A copy of an earlier version gets the missing tables and columns, so that it can be read.
    for (const char* migration : Migrations().subspan(1)) {
      database->Execute(migration).IgnoreError();  // it has these already, or is damaged there
    }
    remains.copies_.push_back(std::make_unique<Database>(*std::move(database)));
  }
  if (remains.copies_.empty()) return absl::DataLossError("its tables cannot be read");
  uint64_t total = 0;
  uint64_t done = 0;
  for (size_t copy = 0; copy < remains.copies_.size(); ++copy) {
    for (const char* table : {kStream, kBatch, kItem}) {
      bool known = false;
      total += static_cast<uint64_t>(remains.LastId(copy, table, &known));
    }
  }
  remains.tried_ = [&] {
    if (progress != nullptr) progress(++done, total);
  };
  // Streams first: the seal and the keys of a batch may be in another copy.
  for (size_t copy = 0; copy < remains.copies_.size(); ++copy) {
    remains.Each(copy, kStream, [&](int64_t id) { return remains.LookAtStream(copy, id); });
  }
  for (size_t copy = 0; copy < remains.copies_.size(); ++copy) {
    remains.Each(copy, kBatch, [&](int64_t id) { return remains.LookAtBatch(copy, id); });
    remains.Each(copy, kItem, [&](int64_t id) { return remains.LookAtItem(copy, id); });
  }
  remains.tried_ = nullptr;
  return remains;
}

absl::StatusOr<model::Batch> Remains::Read(const Stream& stream, const Batch& batch) {
  Query query = copies_[batch.location.copy]->Select("SELECT data FROM stream_batch WHERE id = ?1",
                                                     {batch.location.id});
  if (!query.Next())
    return absl::DataLossError("a batch disappeared while the store was being read");
  return DecodeBatch(query.Bytes(0), stream.seal);
}

uint64_t Remains::damaged_records() const {
  uint64_t sum = without_settings_.size();
  for (const auto& [table, ids] : damaged_) sum += ids.size();
  return sum;
}

void Remains::Each(size_t copy, const char* table, absl::FunctionRef<Look(int64_t id)> look) {
  bool known = false;
  const int64_t last = LastId(copy, table, &known);
  std::set<int64_t>& damaged = damaged_[table];
  int64_t last_sound = 0;
  for (int64_t id = 1; id <= last; ++id) {
    const Look seen = look(id);
    if (seen == Look::kSound) {
      damaged.erase(id);
      last_sound = id;
    } else if (seen == Look::kDamaged && copy == 0) {
      damaged.insert(id);
    }
    tried_();
  }
  // Every id above the existing ones leads to the same damaged page.
  if (!known && copy == 0) damaged.erase(damaged.upper_bound(last_sound), damaged.end());
}

int64_t Remains::LastId(size_t copy, const char* table, bool* known) {
  auto last = copies_[copy]->SelectInteger(
      absl::StrCat("SELECT id FROM ", table, " ORDER BY id DESC LIMIT 1"));
  const auto pages = copies_[copy]->SelectInteger("PRAGMA page_count");
  const int64_t most = pages.value_or(0) * kPageBytes / kMinRecordBytes;
  *known = absl::IsNotFound(last.status()) || (last.ok() && *last <= most);
  if (absl::IsNotFound(last.status())) return 0;
  return last.ok() ? std::min(*last, most) : most;
}

Remains::Look Remains::LookAtStream(size_t copy, int64_t id) {
  Database& database = *copies_[copy];
  Stream found;
  bool has_settings = true;
  {
    Query query = database.Select(absl::StrCat(SelectStream(), "WHERE stream.id = ?1"), {id});
    if (!query.Next()) return query.status().ok() ? Look::kAbsent : Look::kDamaged;
    found.stream = StreamOf(query);
  }
  {
    Query query =
        database.Select(absl::StrCat(kSelectRun, "WHERE run.id = ?1"), {found.stream.run});
    if (!query.Next()) return Look::kDamaged;
    absl::StatusOr<model::Run> run = RunOf(query);
    has_settings = run.ok();
    found.run = has_settings ? *std::move(run) : RunWithoutSettings(query);
  }
  {
    Query query = database.Select(kSelectStreamOwner, {id});
    if (!query.Next()) return Look::kDamaged;
    found.seal = query.Text(0);
  }
  found.locations = {{copy, id}};
  Add(std::move(found), has_settings);
  return Look::kSound;
}

void Remains::Add(Stream found, bool has_settings) {
  const RecordLocation location = found.locations.front();
  const auto [named, is_new] =
      by_name_.try_emplace({found.stream.key, found.run.run_id}, streams_.size());
  const size_t index = named->second;
  by_place_[{location.copy, location.id}] = index;
  if (is_new) {
    streams_.push_back(std::move(found));
    if (!has_settings) without_settings_.insert(index);
    return;
  }
  streams_[index].locations.push_back(location);
  if (has_settings && without_settings_.erase(index) != 0) {
    streams_[index].run.settings = std::move(found.run.settings);
  }
}

Remains::Look Remains::LookAtBatch(size_t copy, int64_t id) {
  Query query =
      copies_[copy]->Select("SELECT stream, last_seq, data FROM stream_batch WHERE id = ?1", {id});
  // A missing id was never used, because ids are given in order. So it is not a loss.
  if (!query.Next()) return query.status().ok() ? Look::kAbsent : Look::kDamaged;
  Stream* const stream = StreamAt(copy, query.Integer(0));
  if (stream == nullptr) return LookAtOwnerless(copy, query.Integer(0));
  const absl::StatusOr<model::Batch> batch = DecodeBatch(query.Bytes(2), stream->seal);
  if (!batch.ok() || batch->last != query.Unsigned(1) || !HasKeys(*stream, *batch)) {
    return Look::kDamaged;
  }
  stream->batches.try_emplace(batch->first, Batch{{copy, id}, batch->last});
  return Look::kSound;
}

Remains::Look Remains::LookAtItem(size_t copy, int64_t id) {
  Query query = copies_[copy]->Select(
      "SELECT stream, count, after_row, time_us, kind, data, called FROM item WHERE id = ?1", {id});
  if (!query.Next()) return query.status().ok() ? Look::kAbsent : Look::kDamaged;
  Stream* const stream = StreamAt(copy, query.Integer(0));
  if (stream == nullptr) return LookAtOwnerless(copy, query.Integer(0));
  absl::StatusOr<model::Item> item = DecodeItem(query.Integer(4), query.Bytes(5), query.Bytes(6));
  if (!item.ok()) return Look::kDamaged;
  item->count = query.Unsigned(1);
  item->after_row = query.Unsigned(2);
  item->time_us = query.Integer(3);
  stream->items.try_emplace(id, *std::move(item));
  return Look::kSound;
}

Remains::Stream* Remains::StreamAt(size_t copy, int64_t id) {
  const auto found = by_place_.find({copy, id});
  return found == by_place_.end() ? nullptr : &streams_[found->second];
}

Remains::Look Remains::LookAtOwnerless(size_t copy, int64_t stream) {
  // Also an error if the store has an old version without removals.
  const absl::StatusOr<int64_t> removed =
      copies_[copy]->SelectInteger("SELECT count(*) FROM removed_stream WHERE id = ?1", {stream});
  return removed.ok() && *removed != 0 ? Look::kAbsent : Look::kDamaged;
}

bool Remains::HasKeys(Stream& stream, const model::Batch& batch) {
  return std::all_of(batch.blocks.begin(), batch.blocks.end(), [&](const model::Block& block) {
    if (block.shape == 0 || block.rows() == 0) return true;
    const auto [known, is_new] = stream.keys.try_emplace(block.shape);
    if (is_new) known->second = FindKeys(stream, block.shape);
    return known->second.has_value() && known->second->size() == block.width();
  });
}

absl::optional<Remains::Keys> Remains::FindKeys(const Stream& stream, uint32_t shape) {
  for (const RecordLocation& location : stream.locations) {
    Query query = copies_[location.copy]->Select(
        "SELECT keys FROM shape WHERE stream = ?1 AND shape = ?2", {location.id, shape});
    if (!query.Next()) continue;
    absl::StatusOr<Keys> keys = DecodeKeys(query.Bytes(0), stream.seal);
    if (keys.ok()) return *std::move(keys);
  }
  return absl::nullopt;
}

}  // namespace ranklog::storage
