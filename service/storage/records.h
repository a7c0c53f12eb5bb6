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
// The owner that seals the blobs of stream or run ?1, how far it goes, and whether rows before were
// lost with another store.
extern const char kSelectStreamOwner[];
extern const char kSelectRunOwner[];

// The row that the query stopped at. kDataLoss if a document in it is damaged.
absl::StatusOr<model::Run> RunOf(const Query& query);
model::Run RunWithoutSettings(const Query& query);  // whose settings are damaged
model::Stream StreamOf(const Query& query);
absl::StatusOr<model::Delivery> DeliveryOf(const Query& query);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_RECORDS_H_
