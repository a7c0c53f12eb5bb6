// The selected columns of runs, streams and deliveries, and their conversion to model types.

#ifndef SERVICE_STORAGE_ROWS_RECORDS_H_
#define SERVICE_STORAGE_ROWS_RECORDS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/model/run.h"
#include "service/storage/database/sqlite.h"

namespace ranklog::storage {

// Each must be followed by a WHERE clause or an ORDER BY.
extern const char kSelectRun[];
std::string SelectStream();
extern const char kSelectDelivery[];
// Select the owner that seals the blobs, the position after the last row, and whether another store
// lost earlier rows. ?1 is the stream, the run, or the run whose replays are read.
extern const char kSelectStreamOwner[];
extern const char kSelectRunOwner[];
extern const char kSelectReplayOwner[];
inline constexpr char kReplaysOf[] = "replays of ";  // prefix of the run's owner

// Whether a stream's process called Init() within a minute of the session's process. Within a boot,
// the boot clock is compared, otherwise the wall clock. The parameters are of the session: ?2 is
// init_us, ?3 boot_id, ?4 began_us.
extern const char kBeganTogether[];
// Whether a stream belongs to the session's start: both have the same launch. If the launcher is
// not visible, both must have begun together in worlds of equal size. ?2 to ?4 are as above. The
// launch gives ?5 id, ?6 restart, ?7 requeue and ?8 unseen. ?9 is the world size.
std::string SameStartCondition();

// The columns of the losses in the order of model::kLossCounters, separated by commas, each as
// `before` NAME `after`.
std::string LossColumns(absl::string_view before, absl::string_view after);

// Convert the query's current row. kDataLoss if a document in it is damaged.
absl::StatusOr<model::Run> RunOf(const Query& query);
model::Run RunWithoutSettings(const Query& query);  // for a run whose settings are damaged
model::Stream StreamOf(const Query& query);
absl::StatusOr<model::Delivery> DeliveryOf(const Query& query);

// kNotFound if no stream has the id.
absl::StatusOr<model::Stream> ReadStream(Database& database, int64_t id);
// kNotFound if no stream carries the ring. The job id of `key` is not used.
absl::StatusOr<model::Stream> ReadStreamOfRing(Database& database, const model::StreamKey& key);

// The bits of a start's column `flags`: whether `resume` is must, whether its notice is a warning,
// and the flags of its launch.
inline constexpr int64_t kMust = 8;
inline constexpr int64_t kWarns = 16;
inline constexpr int64_t kOfPeer = 64;  // of ranks of another node, whose daemon sent them
inline constexpr int64_t kUnseen = 32;
int64_t LaunchFlags(const model::Launch& launch);
void SetLaunchFlags(int64_t flags, model::Launch* launch);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_RECORDS_H_
