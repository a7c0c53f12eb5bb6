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

// Whether a stream's process called Init() within a minute of the session's: by the boot's clock, or,
// of two boots, by the wall clock. ?2 is the session's init_us, ?3 boot_id, ?4 began_us.
extern const char kBeganTogether[];
// Whether a stream, by its start, is of the session's start: of one launch, or, where nobody sees
// that, began together in as large a world. ?2 to ?4 as above; ?5 is the launch's id, ?6 restart,
// ?7 requeue, ?8 unseen, ?9 the world's size.
std::string OfTheStart();

// The row that the query stopped at. kDataLoss if a document in it is damaged.
absl::StatusOr<model::Run> RunOf(const Query& query);
model::Run RunWithoutSettings(const Query& query);  // whose settings are damaged
model::Stream StreamOf(const Query& query);
absl::StatusOr<model::Delivery> DeliveryOf(const Query& query);

// The column `flags` of a start: whether `resume` is must, whether its notice is a warning, and what
// its launch says.
inline constexpr int64_t kMust = 8;
inline constexpr int64_t kWarns = 16;
inline constexpr int64_t kUnseen = 32;
int64_t LaunchFlags(const model::Launch& launch);
void SetLaunchFlags(int64_t flags, model::Launch* launch);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RECORDS_H_
