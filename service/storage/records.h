// The columns of runs, streams and deliveries as they are selected, and the rows as what they mean.

#ifndef SERVICE_STORAGE_RECORDS_H_
#define SERVICE_STORAGE_RECORDS_H_

#include "absl/status/statusor.h"
#include "service/model/run.h"
#include "service/storage/sqlite.h"

namespace ranklog::storage {

// Each to be followed by a WHERE clause or an ORDER BY.
extern const char kSelectRun[];
extern const char kSelectStream[];
extern const char kSelectDelivery[];
// The owner that seals the blobs of stream or run ?1, or of the run's replays, how far it goes, and
// whether rows before were lost with another store.
extern const char kSelectStreamOwner[];
extern const char kSelectRunOwner[];
extern const char kSelectReplayOwner[];
inline constexpr char kReplaysOf[] = "replays of ";  // before the run's owner

// The row that the query stopped at. kDataLoss if a document in it is damaged.
absl::StatusOr<model::Run> RunOf(const Query& query);
model::Run RunWithoutSettings(const Query& query);  // whose settings are damaged
model::Stream StreamOf(const Query& query);
absl::StatusOr<model::Delivery> DeliveryOf(const Query& query);

// The column `flags` of a start: whether `resume` is must, whether its notice is a warning, and what
// its launch says.
inline constexpr int64_t kMust = 8;
inline constexpr int64_t kWarns = 16;
int64_t LaunchFlags(const model::Launch& launch);
void SetLaunchFlags(int64_t flags, model::Launch* launch);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RECORDS_H_
