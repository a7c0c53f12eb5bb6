// The name of an artifact's version, and the query that finds it.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_NAME_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_NAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

struct ArtifactName {
  std::string entity;  // empty: the default one of the key
  std::string project;
  std::string name;
  std::string alias;  // or a version: "v3"
};

// Parses [[ENTITY/]PROJECT/]NAME[:ALIAS]. What is absent is `entity`, `project` and "latest".
//   kInvalidArgument  not such a text, or it has no project
absl::StatusOr<ArtifactName> ParseArtifactName(absl::string_view text, const std::string& entity,
                                               const std::string& project);

struct FoundArtifact {
  std::string id;
  std::string type;
  std::string entity;  // of the artifact, as the server names them
  std::string project;
  int64_t version = 0;
};

std::string FindArtifactBody(const ArtifactName& name);
// Parses an answer with code 200.
//   kNotFound            there is no such artifact
//   kFailedPrecondition  the server reports errors; the message contains them
//   kInternal            not the answer to this query
absl::StatusOr<FoundArtifact> ParseFoundArtifact(absl::string_view body, const ArtifactName& name);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_ARTIFACT_NAME_H_
