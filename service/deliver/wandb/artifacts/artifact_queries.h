// The queries with which an artifact is made, as the official client sends them.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_QUERIES_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_QUERIES_H_

#include <string>
#include <vector>

#include "service/deliver/wandb/artifacts/artifact_entry.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/deliver/wandb/artifacts/file_upload.h"
#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// The server's ids.
struct ArtifactIds {
  std::string artifact;
  std::string base;  // the version before it; empty: there is none
  std::string manifest;
};

// `artifact`: the object of its item. `digest`: see ArtifactDigest().
std::string CreateArtifactBody(const model::Json& artifact, const std::string& digest,
                               const ContentUpload::Place& place);
// Makes the manifest. `text` is null before the files were sent; then it asks where to send the text.
// `incremental`: its files are added to those of the version before it.
std::string ManifestBody(const ArtifactIds& ids, bool incremental, const std::string* text,
                         const ContentUpload::Place& place);
// Asks where to send the files.
std::string ArtifactFilesBody(const ArtifactIds& ids,
                              const std::vector<ArtifactEntries::iterator>& files);
// Joins the parts of a file.
std::string CompleteBody(const FileUpload& upload);
std::string CommitArtifactBody(const std::string& artifact_id);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_QUERIES_H_
