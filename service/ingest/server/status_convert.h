// Converts an absl::Status to a grpc::Status.

#ifndef SERVICE_INGEST_SERVER_STATUS_CONVERT_H_
#define SERVICE_INGEST_SERVER_STATUS_CONVERT_H_

#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"

namespace ranklog::ingest {

// Both use the same code numbers.
inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()),
                      std::string(status.message()));
}

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_SERVER_STATUS_CONVERT_H_
