// A file or a reference of an artifact.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_ENTRY_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_ENTRY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ranklog::deliver::wandb {

struct ArtifactEntry {
  std::string ref;     // of a reference, which is not sent
  std::string staged;  // the name of the staged file
  uint64_t bytes = 0;
  uint64_t part_bytes = 0;         // 0: it is sent whole
  std::string digest;              // Base64
  std::vector<std::string> parts;  // the MD5 of each, if it is sent in parts
  std::string birth;               // the artifact that has the file at the server

  uint64_t BytesOfPart(size_t part) const {
    return std::min(part_bytes, bytes - part * part_bytes);
  }
};

using ArtifactEntries = std::map<std::string, ArtifactEntry>;  // by path

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_ENTRY_H_
