// The manifest of an artifact: which files it has, as the official client, wandb 0.31, writes it.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_MANIFEST_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_MANIFEST_H_

#include <map>
#include <string>

#include "service/deliver/wandb/artifacts/artifact_entry.h"

namespace ranklog::deliver::wandb {

// The digest of a manifest: lower-case hex of the MD5 of its entries' digests (Base64 of the MD5 of
// each file). `entries`: digests by path.
std::string ArtifactDigest(const std::map<std::string, std::string>& entries);

std::string ManifestText(const ArtifactEntries& entries);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_MANIFEST_H_
