#include "service/deliver/wandb/artifacts/artifact_name.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr char kFindArtifact[] =
    "query ArtifactMembershipByName($entity: String, $project: String!, $name: String!) { "
    "project(name: $project, entityName: $entity) { artifactCollectionMembership(name: $name) { "
    "versionIndex artifactCollection { name project { name entity { name } } } "
    "artifact { id state artifactType { name } } } } }";

}  // namespace

absl::StatusOr<ArtifactName> ParseArtifactName(absl::string_view text, const std::string& entity,
                                               const std::string& project) {
  const std::vector<std::string> parts = absl::StrSplit(text, '/');
  const std::vector<std::string> last = absl::StrSplit(parts.back(), ':');
  const bool any_empty =
      std::any_of(parts.begin(), parts.end(), [](const std::string& part) { return part.empty(); });
  if (parts.size() > 3 || last.size() > 2 || any_empty || last.front().empty() ||
      last.back().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", text, "' does not name an artifact; use [[ENTITY/]PROJECT/]NAME[:ALIAS]"));
  }
  ArtifactName name{.entity = parts.size() == 3 ? parts[0] : entity,
                    .project = parts.size() >= 2 ? parts[parts.size() - 2] : project,
                    .name = last.front(),
                    .alias = last.size() == 2 ? last.back() : "latest"};
  if (name.project.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' has no project; use PROJECT/NAME[:ALIAS]"));
  }
  return name;
}

std::string FindArtifactBody(const ArtifactName& name) {
  return GraphqlBody(kFindArtifact, "ArtifactMembershipByName",
                     {{"entity", OrNull(name.entity)},
                      {"project", name.project},
                      {"name", absl::StrCat(name.name, ":", name.alias)}});
}

absl::StatusOr<FoundArtifact> ParseFoundArtifact(absl::string_view body, const ArtifactName& name) {
  // A project that does not exist is null.
  const absl::StatusOr<nlohmann::json> project = ParseGraphql(body, "project");
  if (!project.ok() && !absl::IsInternal(project.status())) return project.status();
  const nlohmann::json found =
      project.ok() ? At(*project, {"artifactCollectionMembership"}) : nlohmann::json();
  if (!found.is_object()) {
    return absl::NotFoundError(absl::StrCat("there is no artifact ", name.entity,
                                            name.entity.empty() ? "" : "/", name.project, "/",
                                            name.name, ":", name.alias));
  }
  FoundArtifact artifact{
      .id = TextAt(found, {"artifact", "id"}),
      .type = TextAt(found, {"artifact", "artifactType", "name"}),
      .entity = TextAt(found, {"artifactCollection", "project", "entity", "name"}),
      .project = TextAt(found, {"artifactCollection", "project", "name"})};
  const nlohmann::json version = At(found, {"versionIndex"});
  if (artifact.id.empty() || !version.is_number_integer()) {
    return absl::InternalError("ArtifactMembershipByName: the answer is incomplete");
  }
  artifact.version = version.get<int64_t>();
  return artifact;
}

}  // namespace ranklog::deliver::wandb
