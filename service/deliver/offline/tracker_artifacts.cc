// The part of Tracker that takes artifacts. The files of an artifact lie in artifacts/ID/ of the run's
// directory. A part of them may be there from an earlier process.

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/offline/answers.h"
#include "service/deliver/offline/records.h"
#include "service/deliver/offline/run_directory.h"
#include "service/deliver/offline/tracker.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::offline {

absl::StatusOr<Tracker::Json> Tracker::OnCreateArtifact(const Json& input) {
  const std::string client_id = wandb::TextAt(input, {"clientID"});
  const bool is_there = contents_.artifacts.count(client_id) > 0;
  std::string id;
  if (!is_there) {
    RETURN_IF_ERROR(Prepare());
    // Another directory has none of its files.
    id = absl::StrCat(parts_, "-", FileNameOf(client_id));
    artifacts_[id] = {.input = input,
                      .manifest = nullptr,
                      .directory = absl::StrCat(directory_, "/artifacts/", id),
                      .incremental = false};
  }
  return Data(
      "createArtifact",
      {{"artifact",
        {{"id", is_there ? client_id : id}, {"state", is_there ? "COMMITTED" : "PENDING"}}}});
}

absl::Status Tracker::OnPutOfArtifact(absl::string_view url, const HttpRequest& request) {
  const size_t slash = url.find('/');
  const auto found = artifacts_.find(std::string(url.substr(0, slash)));
  if (found == artifacts_.end()) return absl::InternalError("the artifact was not begun");
  if (slash == absl::string_view::npos) {
    found->second.manifest = Json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    return absl::OkStatus();
  }
  return StoreFile(request, absl::StrCat(found->second.directory, url.substr(slash)),
                   /*may_link=*/true);
}

absl::StatusOr<Tracker::Json> Tracker::OnCommitArtifact(const std::string& id) {
  const auto found = artifacts_.find(id);
  if (found == artifacts_.end()) return absl::InternalError("the artifact was not begun");
  const PendingArtifact& artifact = found->second;
  wandb_internal::Record record;
  *record.mutable_artifact() = ArtifactOf(artifact.input, artifact.manifest, artifact.directory);
  record.mutable_artifact()->set_entity(contents_.run.entity());
  record.mutable_artifact()->set_incremental_beta1(artifact.incremental);
  RETURN_IF_ERROR(Add(std::move(record)));
  artifacts_.erase(found);
  return Data("commitArtifact", {{"artifact", {{"id", id}}}});
}

}  // namespace ranklog::deliver::offline
