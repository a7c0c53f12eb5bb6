#include "tests/support/wandb_artifacts.h"

#include <openssl/evp.h>

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/wandb_server.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

using Artifact = WandbArtifacts::Artifact;

std::string Md5(const std::string& bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_md5(), nullptr);
  return std::string(digest.begin(), digest.begin() + size);
}

json Data(json data) { return {{"data", std::move(data)}}; }

json Refusal(const std::string& why) {
  return {{"errors", {{{"message", why}}}}, {"data", nullptr}};
}

json Project(const Artifact& artifact) {
  return {{"id", "project-1"},
          {"internalId", "1"},
          {"name", artifact.project},
          {"entity", {{"name", artifact.entity}}}};
}

json Collection(const Artifact& artifact) {
  return {{"__typename", "ArtifactSequence"},
          {"name", artifact.collection},
          {"project", Project(artifact)},
          {"digestAlgorithm", "MANIFEST_MD5"}};
}

json Connection(json nodes) {
  json edges = json::array();
  for (json& node : nodes) edges.push_back({{"node", std::move(node)}, {"cursor", "c"}});
  return {
      {"totalCount", edges.size()},
      {"edges", std::move(edges)},
      {"pageInfo", {{"__typename", "PageInfo"}, {"endCursor", nullptr}, {"hasNextPage", false}}}};
}

std::set<std::string> Texts(const json& list, const char* key) {
  std::set<std::string> texts;
  if (!list.is_array()) return texts;
  for (const json& item : list) texts.insert(TextOf(item, key));
  return texts;
}

}  // namespace

std::string Md5Base64(const std::string& bytes) { return absl::Base64Escape(Md5(bytes)); }

bool WandbArtifacts::Knows(const std::string& operation) {
  static const auto* const operations = new std::set<std::string>{
      "CreateArtifact",
      "CreateArtifactManifest",
      "UpdateArtifactManifest",
      "CreateArtifactFiles",
      "CompleteMultipartUploadArtifact",
      "CommitArtifact",
      "UseArtifact",
      "ClientIDMapping",
      "ArtifactType",
      "FetchArtifactDigestAlgorithm",
      "XXHashDigestsEnabled",
      "ArtifactByID",
      "ArtifactMembershipByName",
      "FetchArtifactManifest",
      "ArtifactManifest",
      "ArtifactFileURLsByManifestEntries",
      "GetArtifactMembershipFileUrls",
      "RunOutputArtifacts",
      "RunInputArtifacts",
  };
  return operations->count(operation) > 0;
}

json WandbArtifacts::Answer(const std::string& operation, const json& variables) {
  // Some clients give its members as variables.
  const json input = variables.value("input", variables);
  if (operation == "CreateArtifact") return Create(input);
  if (operation == "CreateArtifactManifest") return Manifest(variables, "createArtifactManifest");
  if (operation == "UpdateArtifactManifest") return Manifest(variables, "updateArtifactManifest");
  if (operation == "CreateArtifactFiles") return CreateFiles(input);
  if (operation == "CompleteMultipartUploadArtifact") return CompleteParts(variables);
  if (operation == "CommitArtifact") return Commit(TextOf(variables, "artifactID"));
  if (operation == "UseArtifact") return Use(input);
  if (operation == "XXHashDigestsEnabled") {
    return Data({{"entity", {{"xxhashDigestsEnabled", false}}}});
  }
  return Find(operation, variables);
}

json WandbArtifacts::Create(const json& input) {
  Artifact made;
  made.project = TextOf(input, "projectName");
  made.entity = TextOf(input, "entityName");
  made.type = TextOf(input, "artifactTypeName");
  made.collection = TextOf(input, "artifactCollectionName");
  made.client_id = TextOf(input, "clientID");
  made.digest = TextOf(input, "digest");
  made.description = input.value("description", json());
  made.metadata = input.value("metadata", json());
  made.history_step = input.value("historyStep", json());
  made.tags = Texts(input.value("tags", json()), "tagName");
  made.aliases = Texts(input.value("aliases", json()), "alias");
  const Artifact* const latest = Latest(made.project, made.collection);
  const json sequence = {{"latestArtifact", latest == nullptr ? json() : json{{"id", latest->id}}}};
  const auto answer = [&](const Artifact& artifact) {
    return Data({{"createArtifact",
                  {{"artifact",
                    {{"id", artifact.id},
                     {"state", artifact.committed ? "COMMITTED" : "PENDING"},
                     {"artifactSequence", sequence}}}}}});
  };
  const std::string run = TextOf(input, "runName");
  for (auto& [id, artifact] : artifacts_) {
    if (artifact.project != made.project || artifact.collection != made.collection) continue;
    if (artifact.type != made.type) return Refusal("the collection has another type");
    if (artifact.client_id == made.client_id && !artifact.committed) return answer(artifact);
    if (artifact.digest != made.digest || !artifact.committed) continue;
    if (!run.empty()) artifact.runs.insert(run);
    artifact.tags.insert(made.tags.begin(), made.tags.end());
    SetAliases(artifact, made.aliases);
    return answer(artifact);
  }
  // As a real server's ids, it is Base64.
  made.id = absl::Base64Escape(absl::StrCat("Artifact:", artifacts_.size() + 1));
  if (!run.empty()) made.runs.insert(run);
  return answer(artifacts_[made.id] = made);
}

json WandbArtifacts::Manifest(const json& variables, const char* operation) {
  std::string id = TextOf(variables, "artifactManifestID");
  if (id.empty()) {
    if (ById(TextOf(variables, "artifactID")) == nullptr) return Refusal("no such artifact");
    id = absl::StrCat("manifest-", manifests_.size() + 1);
    manifests_[id] = TextOf(variables, "artifactID");
    const bool incremental = TextOf(variables, "manifestType") == "INCREMENTAL";
    if (incremental != (TextOf(variables, "name") == "wandb_manifest.incremental.json")) {
      report_("the name of a manifest is that of another type");
    }
    if (incremental) ById(manifests_[id])->base = TextOf(variables, "baseArtifactID");
  }
  if (manifests_.count(id) == 0) return Refusal("no such manifest");
  json file = {{"id", absl::StrCat("file-of-", id)}};
  if (variables.value("includeUpload", false)) {
    file["uploadUrl"] = url_("manifest", manifests_[id], TextOf(variables, "digest"));
    file["uploadHeaders"] = {"X-Fake-Upload:yes"};
  }
  return Data({{operation, {{"artifactManifest", {{"id", id}, {"file", std::move(file)}}}}}});
}

json WandbArtifacts::CreateFiles(const json& variables) {
  json nodes = json::array();
  for (const json& file : variables.value("artifactFiles", json::array())) {
    Artifact* const artifact = ById(TextOf(file, "artifactID"));
    if (artifact == nullptr) return Refusal("no such artifact");
    const std::string name = TextOf(file, "name");
    const Artifact* const owner = OwnerOf(*artifact, name, TextOf(file, "md5"));
    json node = {{"storagePath", absl::StrCat("wandb_artifacts/", artifact->id, "/", name)},
                 {"uploadUrl", nullptr},
                 {"uploadHeaders", {"X-Fake-Upload:yes", "Content-Type:text/plain"}},
                 {"uploadMultipartUrls", nullptr},
                 {"artifact", {{"id", owner != nullptr ? owner->id : artifact->id}}}};
    const json parts = file.value("uploadPartsInput", json());
    if (owner != nullptr) artifact->awaited.erase(name);  // since an earlier request
    if (owner == nullptr) {
      node["uploadUrl"] = url_("artifact", artifact->id, name);
      // A request that acts late may name a file that is there.
      if (artifact->files.count(name) == 0) artifact->awaited.insert(name);
    }
    if (owner == nullptr && parts.is_array() && !parts.empty()) {
      const std::string id = absl::StrCat("upload-", uploads_.size() + 1);
      uploads_[id] = {.artifact = artifact->id, .name = name, .parts = {}};
      json urls = json::array();
      for (const json& part : parts) {
        const std::string number = part.at("partNumber").dump();
        urls.push_back(
            {{"partNumber", part.at("partNumber")}, {"uploadUrl", url_("part", id, number)}});
      }
      node["uploadMultipartUrls"] = {{"uploadID", id}, {"uploadUrlParts", std::move(urls)}};
    }
    nodes.push_back(std::move(node));
  }
  return Data({{"createArtifactFiles", {{"files", Connection(std::move(nodes))}}}});
}

json WandbArtifacts::CompleteParts(const json& variables) {
  const auto found = uploads_.find(TextOf(variables, "uploadID"));
  if (found == uploads_.end()) return Refusal("no such upload");
  const Upload& upload = found->second;
  if (TextOf(variables, "artifactID") != upload.artifact) {
    return Refusal("the upload is of another artifact");
  }
  std::string bytes;
  int number = 0;
  for (const json& part : variables.value("completedParts", json::array())) {
    const auto stored = upload.parts.find(++number);
    if (part.value("partNumber", 0) != number || stored == upload.parts.end()) {
      return Refusal(absl::StrCat("part ", number, " is missing"));
    }
    // The tag as it was sent, with its quotes.
    const std::string tag = absl::StrCat("\"", absl::BytesToHexString(Md5(stored->second)), "\"");
    if (TextOf(part, "hexMD5") != tag) return Refusal("the parts have other tags");
    bytes += stored->second;
  }
  if (static_cast<size_t>(number) != upload.parts.size()) return Refusal("parts were left out");
  Put("artifact", upload.artifact, upload.name, bytes);
  return Data({{"completeMultipartUploadArtifact", {{"digest", Md5Base64(bytes)}}}});
}

json WandbArtifacts::Commit(const std::string& id) {
  Artifact* const artifact = ById(id);
  if (artifact == nullptr) return Refusal("no such artifact");
  if (!artifact->committed) {
    CheckManifest(*artifact);
    AddFilesOfBase(*artifact);
    const Artifact* const latest = Latest(artifact->project, artifact->collection);
    artifact->version = latest == nullptr ? 0 : latest->version + 1;
    artifact->committed = true;
    SetAliases(*artifact, artifact->aliases);
  }
  return Data(
      {{"commitArtifact", {{"artifact", {{"id", artifact->id}, {"digest", artifact->digest}}}}}});
}

json WandbArtifacts::Use(const json& input) {
  Artifact* const artifact = ById(TextOf(input, "artifactID"));
  if (artifact == nullptr) return Refusal("no such artifact");
  artifact->used_by.insert(TextOf(input, "runName"));
  return Data({{"useArtifact", {{"artifact", Node(*artifact)}}}});
}

void WandbArtifacts::CheckManifest(const Artifact& artifact) {
  const auto report = [&](const std::string& what) {
    report_(absl::StrCat("artifact ", artifact.collection, ": ", what));
  };
  for (const std::string& name : artifact.awaited) report("committed before the upload of " + name);
  const json manifest = json::parse(artifact.manifest, nullptr, /*allow_exceptions=*/false);
  if (!manifest.is_object()) return report("committed without a manifest");
  std::string digests = "wandb-artifact-manifest-v1\n";
  const json contents = manifest.value("contents", json::object());
  for (const auto& [name, entry] : contents.items()) {
    const std::string digest = TextOf(entry, "digest");
    digests += absl::StrCat(name, ":", digest, "\n");
    if (entry.contains("ref")) continue;
    const Artifact* const owner = ById(TextOf(entry, "birthArtifactID"));
    const auto file = owner == nullptr ? artifact.files.end() : owner->files.find(name);
    if (owner == nullptr || file == owner->files.end()) {
      report(absl::StrCat("nobody uploaded ", name));
    } else if (Md5Base64(file->second) != digest ||
               file->second.size() != entry.value("size", 0u)) {
      report(absl::StrCat("the bytes of ", name, " are not those of the manifest"));
    }
  }
  if (absl::BytesToHexString(Md5(digests)) != artifact.digest) report("the digest is wrong");
}

void WandbArtifacts::AddFilesOfBase(Artifact& artifact) {
  if (artifact.base.empty()) return;
  const Artifact* const base = ById(artifact.base);
  if (base == nullptr || !base->committed) return report_("an incremental version has no base");
  json manifest = json::parse(base->manifest);
  manifest["contents"].update(json::parse(artifact.manifest).value("contents", json::object()));
  artifact.manifest = manifest.dump();
}

void WandbArtifacts::SetAliases(Artifact& artifact, const std::set<std::string>& aliases) {
  for (auto& [id, other] : artifacts_) {
    if (other.project != artifact.project || other.collection != artifact.collection) continue;
    if (&other == &artifact) continue;
    for (const std::string& alias : aliases) other.aliases.erase(alias);
  }
  artifact.aliases.insert(aliases.begin(), aliases.end());
}

bool WandbArtifacts::Put(const std::string& kind, const std::string& owner, const std::string& name,
                         const std::string& bytes) {
  if (kind == "part") {
    int number = 0;
    const auto upload = uploads_.find(owner);
    if (upload == uploads_.end() || !absl::SimpleAtoi(name, &number)) return false;
    upload->second.parts[number] = bytes;
    return true;
  }
  Artifact* const artifact = ById(owner);
  if (artifact == nullptr) return false;
  if (kind == "manifest") {
    if (Md5Base64(bytes) != name) report_("a manifest has not the digest that was announced");
    artifact->manifest = bytes;
    return true;
  }
  if (artifact->awaited.erase(name) == 0 && artifact->files.count(name) == 0) return false;
  artifact->files[name] = bytes;
  return true;
}

void WandbArtifacts::LosePart(const std::string& upload, const std::string& number) {
  int part = 0;
  if (absl::SimpleAtoi(number, &part)) uploads_[upload].parts.erase(part);
}

const std::string* WandbArtifacts::Get(const std::string& kind, const std::string& owner,
                                       const std::string& name) const {
  const auto artifact = artifacts_.find(owner);
  if (artifact == artifacts_.end()) return nullptr;
  if (kind == "manifest") return &artifact->second.manifest;
  const auto file = artifact->second.files.find(name);
  return file == artifact->second.files.end() ? nullptr : &file->second;
}

std::vector<const Artifact*> WandbArtifacts::LoggedBy(const std::string& run_id) const {
  std::vector<const Artifact*> found;
  for (const auto& [id, artifact] : artifacts_) {
    if (artifact.runs.count(run_id) > 0) found.push_back(&artifact);
  }
  return found;
}

Artifact* WandbArtifacts::ById(const std::string& id) {
  const auto found = artifacts_.find(id);
  return found == artifacts_.end() ? nullptr : &found->second;
}

Artifact* WandbArtifacts::ByName(const std::string& project, const std::string& name) {
  const std::vector<std::string> parts = absl::StrSplit(name, absl::MaxSplits(':', 1));
  const std::string alias = parts.size() < 2 ? "latest" : parts[1];
  for (auto& [id, artifact] : artifacts_) {
    if (artifact.project != project || artifact.collection != parts[0]) continue;
    if (!artifact.committed) continue;
    if (artifact.aliases.count(alias) > 0 || absl::StrCat("v", artifact.version) == alias) {
      return &artifact;
    }
  }
  return nullptr;
}

Artifact* WandbArtifacts::Latest(const std::string& project, const std::string& collection) {
  Artifact* latest = nullptr;
  for (auto& [id, artifact] : artifacts_) {
    if (artifact.project != project || artifact.collection != collection) continue;
    if (!artifact.committed) continue;
    if (latest == nullptr || latest->version < artifact.version) latest = &artifact;
  }
  return latest;
}

const Artifact* WandbArtifacts::OwnerOf(const Artifact& artifact, const std::string& name,
                                        const std::string& md5) const {
  for (const auto& [id, other] : artifacts_) {
    if (other.project != artifact.project || other.collection != artifact.collection) continue;
    const auto file = other.files.find(name);
    if (other.committed && file != other.files.end() && Md5Base64(file->second) == md5) {
      return &other;
    }
  }
  return nullptr;
}

json WandbArtifacts::Node(const Artifact& artifact) const {
  json aliases = json::array();
  for (const std::string& alias : artifact.aliases) {
    aliases.push_back({{"__typename", "ArtifactAlias"},
                       {"id", absl::StrCat("alias-", alias)},
                       {"alias", alias},
                       {"artifactCollection", Collection(artifact)}});
  }
  json tags = json::array();
  for (const std::string& tag : artifact.tags) {
    tags.push_back({{"__typename", "Tag"}, {"id", absl::StrCat("tag-", tag)}, {"name", tag}});
  }
  const json manifest = json::parse(artifact.manifest, nullptr, /*allow_exceptions=*/false);
  int64_t size = 0;
  int64_t files = 0;
  if (manifest.is_object()) {
    for (const json& entry : manifest.value("contents", json::object())) {
      size += entry.value("size", int64_t{0});
      ++files;
    }
  }
  return {{"__typename", "Artifact"},
          {"id", artifact.id},
          {"artifactSequence", Collection(artifact)},
          {"versionIndex", artifact.version},
          {"artifactType", {{"name", artifact.type}}},
          {"description", artifact.description},
          {"metadata", artifact.metadata.is_null() ? json("{}") : artifact.metadata},
          {"ttlDurationSeconds", -2},  // inherited
          {"ttlIsInherited", true},
          {"tags", std::move(tags)},
          {"historyStep", artifact.history_step},
          {"state", artifact.committed ? "COMMITTED" : "PENDING"},
          {"size", size},
          {"digest", artifact.digest},
          {"digestAlgorithm", "MANIFEST_MD5"},
          {"commitHash", artifact.id},
          {"fileCount", files},
          {"createdAt", "2026-01-02T03:04:05Z"},
          {"updatedAt", nullptr},
          {"aliases", std::move(aliases)},
          {"currentManifest",
           {{"id", "manifest"}, {"file", {{"directUrl", url_("manifest", artifact.id, "m")}}}}},
          {"artifactCollection", Collection(artifact)}};
}

json WandbArtifacts::FileUrls(const json& variables) {
  Artifact* artifact = ById(TextOf(variables, "id"));
  if (artifact == nullptr) {
    artifact = ByName(TextOf(variables, "project"), absl::StrCat(TextOf(variables, "collection"),
                                                                 ":", TextOf(variables, "alias")));
  }
  json nodes = json::array();
  if (artifact == nullptr) return Connection(std::move(nodes));
  const json contents = json::parse(artifact->manifest).value("contents", json::object());
  for (const auto& [name, entry] : contents.items()) {
    if (entry.contains("ref")) continue;
    nodes.push_back({{"__typename", "File"},
                     {"name", name},
                     {"directUrl", url_("artifact", TextOf(entry, "birthArtifactID"), name)}});
  }
  return Connection(std::move(nodes));
}

json WandbArtifacts::Find(const std::string& operation, const json& variables) {
  const std::string project = TextOf(variables, "project");
  if (operation == "RunOutputArtifacts" || operation == "RunInputArtifacts") {
    json nodes = json::array();
    for (const auto& [id, artifact] : artifacts_) {
      const auto& runs = operation == "RunInputArtifacts" ? artifact.used_by : artifact.runs;
      if (runs.count(TextOf(variables, "run")) > 0) nodes.push_back(Node(artifact));
    }
    return Data({{"project", {{"run", {{"artifacts", Connection(std::move(nodes))}}}}}});
  }
  if (operation == "ArtifactFileURLsByManifestEntries") {
    return Data({{"artifact", {{"filesByManifestEntries", FileUrls(variables)}}}});
  }
  if (operation == "GetArtifactMembershipFileUrls") {
    json membership = {{"files", FileUrls(variables)}};
    return Data({{"project",
                  {{"artifactCollection",
                    {{"__typename", "ArtifactSequence"},
                     {"artifactMembership", std::move(membership)}}}}}});
  }
  if (operation == "ClientIDMapping") {
    for (const auto& [id, artifact] : artifacts_) {
      if (artifact.client_id != TextOf(variables, "clientID")) continue;
      return Data({{"clientIDMapping", {{"serverID", id}}}});
    }
    return Data({{"clientIDMapping", nullptr}});
  }
  if (operation == "FetchArtifactDigestAlgorithm") {
    return Data({{"project", {{"artifactType", nullptr}}}});
  }
  if (operation == "ArtifactType" || operation == "ArtifactMembershipByName") {
    const Artifact* const artifact = ByName(project, TextOf(variables, "name"));
    const json node = artifact == nullptr ? json() : Node(*artifact);
    json membership = nullptr;
    if (artifact != nullptr) {
      membership = {{"__typename", "ArtifactCollectionMembership"},
                    {"id", "membership"},
                    {"versionIndex", artifact->version},
                    {"createdAt", node["createdAt"]},
                    {"aliases", node["aliases"]},
                    {"artifactCollection", Collection(*artifact)},
                    {"artifact", node}};
    }
    return Data({{"project",
                  {{"artifact", node}, {"artifactCollectionMembership", std::move(membership)}}}});
  }
  const std::string id = TextOf(variables, variables.contains("id") ? "id" : "artifact_id");
  const Artifact* const artifact = ById(id);
  return Data({{"artifact", artifact == nullptr ? json() : Node(*artifact)}});
}

}  // namespace ranklog::testing
