#include "service/deliver/wandb/artifacts/artifact_queries.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/artifacts/md5.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;

constexpr char kCreate[] =
    "mutation CreateArtifact($input: CreateArtifactInput!) { createArtifact(input: $input) { "
    "artifact { id state artifactSequence { latestArtifact { id } } } } }";
constexpr char kManifest[] =
    "mutation CreateArtifactManifest($artifactID: ID!, $baseArtifactID: ID, $name: String!, "
    "$digest: String!, $entityName: String!, $projectName: String!, $runName: String!, "
    "$manifestType: ArtifactManifestType!, $includeUpload: Boolean!) { "
    "createArtifactManifest(input: {artifactID: $artifactID, baseArtifactID: $baseArtifactID, "
    "name: $name, digest: $digest, entityName: $entityName, projectName: $projectName, "
    "runName: $runName, type: $manifestType}) { artifactManifest { id file { id "
    "uploadUrl @include(if: $includeUpload) uploadHeaders @include(if: $includeUpload) } } } }";
constexpr char kUpdateManifest[] =
    "mutation UpdateArtifactManifest($artifactManifestID: ID!, $digest: String, "
    "$baseArtifactID: ID, $includeUpload: Boolean!) { updateArtifactManifest(input: "
    "{artifactManifestID: $artifactManifestID, digest: $digest, baseArtifactID: $baseArtifactID}) "
    "{ artifactManifest { id file { id uploadUrl @include(if: $includeUpload) "
    "uploadHeaders @include(if: $includeUpload) } } } }";
constexpr char kFiles[] =
    "mutation CreateArtifactFiles($input: CreateArtifactFilesInput!) { "
    "createArtifactFiles(input: $input) { files { edges { node { storagePath uploadUrl "
    "uploadHeaders uploadMultipartUrls { uploadID uploadUrlParts { partNumber uploadUrl } } "
    "artifact { id } } } } } }";
constexpr char kComplete[] =
    "mutation CompleteMultipartUploadArtifact($completeMultipartAction: CompleteMultipartAction!, "
    "$completedParts: [UploadPartsInput!]!, $artifactID: ID!, $storagePath: String!, "
    "$uploadID: String!) { completeMultipartUploadArtifact(input: {completeMultipartAction: "
    "$completeMultipartAction, completedParts: $completedParts, artifactID: $artifactID, "
    "storagePath: $storagePath, uploadID: $uploadID}) { digest } }";
constexpr char kCommit[] =
    "mutation CommitArtifact($artifactID: ID!) { commitArtifact(input: {artifactID: $artifactID}) "
    "{ artifact { id digest } } }";

// 128 letters and digits that depend only on the text.
std::string LongId(absl::string_view text) {
  std::string id;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&id, absl::BytesToHexString(Md5Of(absl::StrCat(text, "-", i))));
  }
  return id;
}

}  // namespace

std::string CreateArtifactBody(const Json& artifact, const std::string& digest,
                               const ContentUpload::Place& place) {
  Json aliases = Json::array();
  for (const Json& alias : MemberOf(artifact, "aliases")) {
    aliases.push_back({{"artifactCollectionName", TextOf(artifact, "name")}, {"alias", alias}});
  }
  const Json& metadata = MemberOf(artifact, "metadata");
  const int64_t step = IntegerOf(artifact, "step");
  const std::string id = TextOf(artifact, "id");
  Json input = {{"entityName", place.entity},
                {"projectName", place.project},
                {"artifactTypeName", TextOf(artifact, "type")},
                {"artifactCollectionName", TextOf(artifact, "name")},
                {"runName", place.run_id},
                {"digest", digest},
                {"digestAlgorithm", "MANIFEST_MD5"},
                {"description", OrNull(TextOf(artifact, "description"))},
                {"aliases", std::move(aliases)},
                {"metadata", metadata.is_object() ? Json(ToJsonText(metadata)) : Json(nullptr)},
                {"historyStep", step > 0 ? Json(step) : Json(nullptr)},
                {"enableDigestDeduplication", true},
                {"distributedID", nullptr},
                {"clientID", LongId(id)},
                {"sequenceClientID", LongId(absl::StrCat(id, "-sequence"))}};
  Json tags = Json::array();
  for (const Json& tag : MemberOf(artifact, "tags")) tags.push_back({{"tagName", tag}});
  if (!tags.empty()) input["tags"] = std::move(tags);
  return GraphqlBody(kCreate, "CreateArtifact", {{"input", std::move(input)}});
}

// A full manifest is made once more with its digest, an incremental one is updated: as the official
// client.
std::string ManifestBody(const ArtifactIds& ids, bool incremental, const std::string* text,
                         const ContentUpload::Place& place) {
  const bool upload = text != nullptr;
  const std::string digest = upload ? absl::Base64Escape(Md5Of(*text)) : "";
  if (upload && incremental) {
    return GraphqlBody(kUpdateManifest, "UpdateArtifactManifest",
                       {{"artifactManifestID", ids.manifest},
                        {"digest", digest},
                        {"baseArtifactID", OrNull(ids.base)},
                        {"includeUpload", true}});
  }
  return GraphqlBody(
      kManifest, "CreateArtifactManifest",
      {{"artifactID", ids.artifact},
       {"baseArtifactID", OrNull(ids.base)},
       {"name", incremental ? "wandb_manifest.incremental.json" : "wandb_manifest.json"},
       {"digest", digest},
       {"entityName", place.entity},
       {"projectName", place.project},
       {"runName", place.run_id},
       {"manifestType", incremental ? "INCREMENTAL" : "FULL"},
       {"includeUpload", upload}});
}

std::string ArtifactFilesBody(const ArtifactIds& ids,
                              const std::vector<ArtifactEntries::iterator>& files) {
  Json inputs = Json::array();
  for (const ArtifactEntries::iterator file : files) {
    const auto& [path, entry] = *file;
    Json parts = nullptr;
    for (size_t i = 0; i < entry.parts.size(); ++i) {
      parts.push_back({{"partNumber", i + 1}, {"hexMD5", absl::BytesToHexString(entry.parts[i])}});
    }
    inputs.push_back({{"artifactID", ids.artifact},
                      {"artifactManifestID", ids.manifest},
                      {"md5", entry.digest},
                      {"name", path},
                      {"mimetype", nullptr},
                      {"uploadPartsInput", std::move(parts)}});
  }
  return GraphqlBody(kFiles, "CreateArtifactFiles",
                     {{"input", {{"artifactFiles", std::move(inputs)}, {"storageLayout", "V2"}}}});
}

std::string CompleteBody(const FileUpload& upload) {
  Json parts = Json::array();
  for (size_t i = 0; i < upload.tags.size(); ++i) {
    parts.push_back({{"partNumber", i + 1}, {"hexMD5", upload.tags[i]}});
  }
  return GraphqlBody(kComplete, "CompleteMultipartUploadArtifact",
                     {{"completeMultipartAction", "Complete"},
                      {"completedParts", std::move(parts)},
                      {"artifactID", upload.entry->second.birth},
                      {"storagePath", upload.storage_path},
                      {"uploadID", upload.upload_id}});
}

std::string CommitArtifactBody(const std::string& artifact_id) {
  return GraphqlBody(kCommit, "CommitArtifact", {{"artifactID", artifact_id}});
}

}  // namespace ranklog::deliver::wandb
