// ranklog artifacts get: downloads a version of an artifact.

#ifndef SERVICE_CLI_RUNS_ARTIFACTS_GET_H_
#define SERVICE_CLI_RUNS_ARTIFACTS_GET_H_

#include <string>

#include "absl/status/status.h"
#include "service/cli/node/globals.h"

namespace ranklog::cli {

struct ArtifactsGetFlags {
  std::string name;  // [[ENTITY/]PROJECT/]NAME[:ALIAS]
  std::string type;
  std::string root;
  std::string base_url;
  std::string timeout = "30s";
};

// `project`: of --project.
absl::Status GetArtifact(const Globals& globals, const ArtifactsGetFlags& flags,
                         const std::string& project);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_RUNS_ARTIFACTS_GET_H_
