// An artifact that the run uses: the edge from it to the run in the lineage. Drawing it twice is
// harmless.

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/artifacts/artifact_name.h"
#include "service/deliver/wandb/artifacts/content_upload.h"

namespace ranklog::deliver::wandb {
namespace {

// The official client names the artifact's project to servers with that feature only.
constexpr char kUseArtifact[] =
    "mutation UseArtifact($entityName: String!, $projectName: String!, $runName: String!, "
    "$artifactID: ID!) { useArtifact(input: {entityName: $entityName, projectName: $projectName, "
    "runName: $runName, artifactID: $artifactID}) { artifact { id } } }";
constexpr char kUseArtifactOfProject[] =
    "mutation UseArtifact($entityName: String!, $projectName: String!, $runName: String!, "
    "$artifactID: ID!, $artifactEntityName: String, $artifactProjectName: String) { "
    "useArtifact(input: {entityName: $entityName, projectName: $projectName, runName: $runName, "
    "artifactID: $artifactID, artifactEntityName: $artifactEntityName, "
    "artifactProjectName: $artifactProjectName}) { artifact { id } } }";

class ArtifactUse : public ContentUpload {
 public:
  ArtifactUse(std::string text, Place place) : text_(std::move(text)), place_(std::move(place)) {}

  Work work() const override {
    if (is_done_) return Work::kDone;
    return name_.name.empty() ? Work::kRead : Work::kQuery;
  }
  absl::Status Read(size_t /*bytes*/) override {
    ASSIGN_OR_RETURN(name_, ParseArtifactName(text_, place_.entity, place_.project));
    return absl::OkStatus();
  }
  std::string Query() const override {
    if (found_.id.empty()) return FindArtifactBody(name_);
    model::Json variables = {{"entityName", place_.entity},
                             {"projectName", place_.project},
                             {"runName", place_.run_id},
                             {"artifactID", found_.id}};
    if (place_.names_used_project) {
      variables["artifactEntityName"] = found_.entity;
      variables["artifactProjectName"] = found_.project;
    }
    return GraphqlBody(place_.names_used_project ? kUseArtifactOfProject : kUseArtifact,
                       "UseArtifact", std::move(variables));
  }
  absl::Status OnAnswer(absl::string_view body) override {
    if (found_.id.empty()) {
      ASSIGN_OR_RETURN(found_, ParseFoundArtifact(body, name_));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(ParseGraphql(body, "useArtifact").status());
    is_done_ = true;
    return absl::OkStatus();
  }
  HttpRequest Put() const override { return {}; }  // not called
  absl::Status OnPut(const HttpResponse& /*answer*/) override { return absl::OkStatus(); }
  void Restart(bool /*refused*/) override { found_ = {}; }
  Sent sent() const override { return {}; }
  std::string Name() const override { return absl::StrCat("artifact ", text_); }

 private:
  const std::string text_;
  const Place place_;
  ArtifactName name_;
  FoundArtifact found_;
  bool is_done_ = false;
};

}  // namespace

std::unique_ptr<ContentUpload> UseArtifact(const model::Item& item, ContentUpload::Place place) {
  return std::make_unique<ArtifactUse>(TextOf(item.object, "use"), std::move(place));
}

}  // namespace ranklog::deliver::wandb
