// Reads a run back from an MLflow server: `ranklog verify`.

#ifndef SERVICE_DELIVER_MLFLOW_READ_BACK_H_
#define SERVICE_DELIVER_MLFLOW_READ_BACK_H_

#include "absl/status/statusor.h"
#include "service/deliver/destination.h"

namespace ranklog::deliver::mlflow {

// See Destination::ReadBack().
absl::StatusOr<ReadBackReport> ReadBack(const Destination& destination,
                                        storage::StoreReader& reader, const model::Run& run,
                                        const model::Delivery& delivery, Transport& transport,
                                        const Credential& credential,
                                        const ReadBackOptions& options);

}  // namespace ranklog::deliver::mlflow

#endif  // SERVICE_DELIVER_MLFLOW_READ_BACK_H_
