// Compares what ClickHouse has of a run with the store.

#ifndef SERVICE_DELIVER_CLICKHOUSE_READ_BACK_H_
#define SERVICE_DELIVER_CLICKHOUSE_READ_BACK_H_

#include "absl/status/statusor.h"
#include "service/deliver/destination.h"

namespace ranklog::deliver::clickhouse {

// As Destination::ReadBack(). A row is a row of a rank: they are numbered over all streams of the run,
// ordered by rank. The server computes a digest of each stream; only of a stream that differs are the
// rows read, as a digest for each.
absl::StatusOr<ReadBackReport> ReadBack(const Destination& destination,
                                        storage::StoreReader& reader, const model::Run& run,
                                        const model::Delivery& delivery, Transport& transport,
                                        const Credential& credential,
                                        const ReadBackOptions& options);

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_READ_BACK_H_
