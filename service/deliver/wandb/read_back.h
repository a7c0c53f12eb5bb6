// Reads a run back from a W&B server and compares it with the store.

#ifndef SERVICE_DELIVER_WANDB_READ_BACK_H_
#define SERVICE_DELIVER_WANDB_READ_BACK_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "service/deliver/credentials.h"
#include "service/deliver/http/transport.h"
#include "service/deliver/read_back.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::deliver::wandb {

// Compares the server's lines with the lines that the store's rows make, one range of steps at a
// time. Rows with dead letters are expected without values. Then compares the config and the
// summary by key. Values that `step_sync` adds are not compared, because they depend on when a
// definition arrived.
//
// `run` and `delivery` must be as stored, and the delivery must have a cursor. Makes at most one
// request at a time.
//   kNotFound            the server has no such run
//   kUnavailable         no answer within the timeout
//   kFailedPrecondition  the server refuses us, or answers with an error
//   kDataLoss            the store lacks rows that it counts as delivered
absl::StatusOr<ReadBackReport> ReadBack(storage::StoreReader& reader, const model::Run& run,
                                        const model::Delivery& delivery, Transport& transport,
                                        const Credential& key, const ReadBackOptions& options);

// The last step of the run at the server; -1: it has no such run, or no row of it. Errors as above.
absl::StatusOr<int64_t> LastStep(const model::Run& run, Transport& transport, const Credential& key,
                                 const ReadBackOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_READ_BACK_H_
