// Converts wire messages to the model. Proto types are not used outside this folder.

#ifndef SERVICE_INGEST_RING_CONVERT_H_
#define SERVICE_INGEST_RING_CONVERT_H_

#include "absl/status/statusor.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"
#include "service/model/batch.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::ingest {

// Nesting of lists and objects; limited because readers recurse.
inline constexpr size_t kMaxConfigDepth = 64;

// Converts and validates a Hello.
//   kFailedPrecondition  another version of the protocol
//   kInvalidArgument     model::Validate refuses it, or an enumerator is unknown
absl::StatusOr<model::Session> ToSession(const v1::Hello& hello);
model::StreamKey ToStreamKey(const v1::StreamId& id);
// Converts a batch and validates it with model::Validate.
//   kInvalidArgument  the batch is invalid
absl::StatusOr<model::Batch> ToBatch(const v1::Batch& batch);
// Converts and validates an item.
//   kInvalidArgument  no content, an empty name, or nested deeper than kMaxConfigDepth
absl::StatusOr<model::Item> ToItem(const v1::Item& item);
// The same, but an invalid item becomes one without content, and is logged. The items and rows
// after it must not wait for it.
model::Item ToItemOrUnreadable(const v1::Item& item);
// The rows and items that the rank refused, as the rank reports them, and as its ring counts them.
model::Losses ToLosses(const v1::Losses& losses);
model::Losses ToLosses(const v1::SpoolHeader& ring);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_CONVERT_H_
