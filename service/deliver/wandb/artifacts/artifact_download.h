// Downloads a version of an artifact.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_DOWNLOAD_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_DOWNLOAD_H_

#include <string>

#include "absl/status/statusor.h"
#include "service/deliver/credentials.h"
#include "service/deliver/download.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver::wandb {

// See Destination::Download().
absl::StatusOr<DownloadReport> DownloadArtifact(Transport& transport, const std::string& server,
                                                const Credential& credential,
                                                const DownloadOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_DOWNLOAD_H_
