// The way of one file of an artifact to the store of files: whole, or in parts.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_FILE_UPLOAD_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_FILE_UPLOAD_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "service/deliver/http/transport.h"
#include "service/deliver/wandb/artifacts/artifact_entry.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/model/item.h"

namespace ranklog::deliver::wandb {

// The size of the parts of a file of `bytes`; 0: it is sent whole.
uint64_t PartBytes(uint64_t bytes, const ContentUpload::Place& place);

struct FileUpload {
  ArtifactEntries::iterator entry;
  std::string url;
  std::vector<std::pair<std::string, std::string>> headers;
  std::string storage_path;
  std::string upload_id;
  std::vector<std::string> part_urls;  // empty: it is sent whole
  std::vector<std::string> tags;       // of the parts that were sent

  bool HasAllParts() const { return !part_urls.empty() && tags.size() == part_urls.size(); }
  // Of the file, or of its next part. `staged`: the directory of the staged files.
  HttpRequest NextPut(const std::string& staged) const;
  // What ContinueParts() needs: the addresses, and the tags of the parts that were sent. Null if no
  // part was sent, or if that would be too much to store.
  model::Json PartsProgress() const;
  // Goes on with the parts of an earlier life, if `parts` is of this file. Returns the bytes sent.
  uint64_t ContinueParts(const model::Json& parts);
};

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_FILE_UPLOAD_H_
