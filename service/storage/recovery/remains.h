// The readable part of a damaged store. Each record is looked up separately, and used if its
// checksum matches.

#ifndef SERVICE_STORAGE_RECOVERY_REMAINS_H_
#define SERVICE_STORAGE_RECOVERY_REMAINS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "service/model/batch.h"
#include "service/model/run.h"
#include "service/model/session.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

inline constexpr int64_t kPageBytes = 4096;  // of this version of the store and of all earlier ones

// Not thread-safe.
class Remains {
 public:
  // The location of a record: the copy that has it, and its id there.
  struct RecordLocation {
    size_t copy;
    int64_t id;
  };
  struct Batch {
    RecordLocation location;
    uint64_t last;  // its last position
  };
  using Keys = std::vector<std::string>;
  struct Stream {
    model::Stream stream;
    model::Run run;  // damaged settings are replaced by defaults
    std::string seal;
    std::vector<RecordLocation> locations;
    std::map<uint64_t, Batch> batches;              // by first position; they may overlap
    std::map<uint32_t, absl::optional<Keys>> keys;  // of the batches' shapes; nullopt: damaged
    std::map<int64_t, model::Item> items;           // by id, in the order of arrival
  };
  using ProgressFn = std::function<void(uint64_t done, uint64_t total)>;  // in records

  // Searches copies of one store, the best one first. SQLite may write to the copies.
  //   kDataLoss  the tables cannot be read in any copy
  static absl::StatusOr<Remains> Find(const std::vector<std::string>& copies,
                                      const ProgressFn& progress);

  const std::vector<Stream>& streams() const { return streams_; }
  absl::StatusOr<model::Batch> Read(const Stream& stream, const Batch& batch);
  // Batches, items and settings that cannot be read in any copy, or whose stream cannot be read.
  uint64_t damaged_records() const;

 private:
  enum class Look { kSound, kAbsent, kDamaged };

  // Calls `look` for each id that `table` of a copy may have.
  void Each(size_t copy, const char* table, absl::FunctionRef<Look(int64_t id)> look);
  int64_t LastId(size_t copy, const char* table, bool* known);
  Look LookAtStream(size_t copy, int64_t id);
  Look LookAtBatch(size_t copy, int64_t id);
  Look LookAtItem(size_t copy, int64_t id);
  Stream* StreamAt(size_t copy, int64_t id);
  // The result for a record of a stream that is absent: the stream was removed, or is damaged.
  Look LookAtOwnerless(size_t copy, int64_t stream);
  void Add(Stream found, bool has_settings);
  // Whether the keys of the numbers in `batch` are known.
  bool HasKeys(Stream& stream, const model::Batch& batch);
  absl::optional<Keys> FindKeys(const Stream& stream, uint32_t shape);

  std::vector<std::unique_ptr<Database>> copies_;
  std::vector<Stream> streams_;
  std::map<std::pair<model::StreamKey, std::string>, size_t> by_name_;  // key and run id
  std::map<std::pair<size_t, int64_t>, size_t> by_place_;
  std::set<size_t> without_settings_;                 // indexes of streams_
  std::map<std::string, std::set<int64_t>> damaged_;  // ids in the first copy, by table
  std::function<void()> tried_;                       // reports one more record
};

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RECOVERY_REMAINS_H_
