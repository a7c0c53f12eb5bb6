#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/deliver/wandb/artifacts/md5.h"
#include "service/deliver/wandb/artifacts/staged_file.h"
#include "service/deliver/wandb/documents/json_members.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using nlohmann::json;

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

// Addresses expire, and an answer must not be too large.
constexpr size_t kFilesPerQuery = 100;
// A cursor is stored often, so it has the addresses of that many parts at most: some 700 bytes each.
constexpr size_t kMostKeptParts = 1000;
// The store of files must move some bytes in this time.
constexpr absl::Duration kIdle = absl::Minutes(1);

// 128 letters and digits that depend only on the text.
std::string LongId(absl::string_view text) {
  std::string id;
  for (int i = 0; i < 4; ++i) {
    absl::StrAppend(&id, absl::BytesToHexString(Md5Of(absl::StrCat(text, "-", i))));
  }
  return id;
}

class ArtifactUpload : public ContentUpload {
 public:
  ArtifactUpload(const Json& artifact, Place place)
      : artifact_(artifact), place_(std::move(place)) {
    for (const Json& entry : MemberOf(artifact_, "entries")) {
      Entry& to = entries_[TextOf(entry, "path")];
      to.ref = TextOf(entry, "ref");
      to.bytes = static_cast<uint64_t>(std::max<int64_t>(IntegerOf(entry, "bytes"), 0));
      to.staged = TextOf(entry, "file");
      if (!to.ref.empty()) to.digest = to.ref;  // as the official client without a checksum
    }
    next_ = entries_.begin();
    SkipReferences();
  }

  Work work() const override {
    switch (state_) {
      case State::kHash:
        return Work::kRead;
      case State::kPutFile:
      case State::kPutManifest:
        return Work::kPut;
      case State::kDone:
        return Work::kDone;
      default:
        return Work::kQuery;
    }
  }

  absl::Status Read(size_t bytes) override {
    if (next_ != entries_.end()) {
      Entry& entry = next_->second;
      if (!reader_.is_open()) {
        RETURN_IF_ERROR(reader_.Open(place_.staged, entry.staged, entry.bytes,
                                     IsInParts(entry) ? PartBytes(entry) : 0));
      }
      ASSIGN_OR_RETURN(const bool done, reader_.Read(bytes));
      if (!done) return absl::OkStatus();
      entry.digest = absl::Base64Escape(reader_.digest());
      entry.parts = reader_.TakeParts();
      ++next_;
      SkipReferences();
    }
    if (next_ == entries_.end()) {
      std::map<std::string, std::string> digests;
      for (const auto& [path, entry] : entries_) digests[path] = entry.digest;
      digest_ = ArtifactDigest(digests);
      Begin();
    }
    return absl::OkStatus();
  }

  void Restart(bool refused) override {
    if (state_ == State::kHash) return;
    before_ = Progress();
    if (refused && state_ == State::kPutFile && before_.is_object()) {
      before_["parts"] = nullptr;  // their addresses may have expired
    } else if (refused) {
      before_ = nullptr;  // the server may have lost something
    }
    Begin();
  }

  // {artifact, batch, sent, parts}: the files before the path `batch` were sent, and those in `sent`.
  // `parts`: the file that is being sent in parts, with its addresses and the tags of those sent.
  Json Progress() const override {
    if (batch_.empty() || batch_ < TextOf(before_, "batch")) return before_;
    Json progress = {{"artifact", artifact_id_}, {"batch", batch_}, {"sent", batch_sent_}};
    if (uploads_.empty() || uploads_.back().tags.empty()) return progress;
    const Upload& upload = uploads_.back();
    if (upload.part_urls.size() > kMostKeptParts) return progress;
    Json headers = Json::array();
    for (const auto& [name, value] : upload.headers) headers.push_back({name, value});
    progress["parts"] = {{"path", upload.entry->first}, {"storage", upload.storage_path},
                         {"id", upload.upload_id},      {"urls", upload.part_urls},
                         {"tags", upload.tags},         {"headers", std::move(headers)}};
    return progress;
  }

  void Continue(Json progress) override {
    if (progress.is_object()) before_ = std::move(progress);
  }

  std::string Query() const override {
    switch (state_) {
      case State::kCreate:
        return GraphqlBody(kCreate, "CreateArtifact", {{"input", CreateInput()}});
      case State::kFiles:
        return GraphqlBody(kFiles, "CreateArtifactFiles",
                           {{"input", {{"artifactFiles", FilesInput()}, {"storageLayout", "V2"}}}});
      case State::kComplete:
        return GraphqlBody(kComplete, "CompleteMultipartUploadArtifact", CompleteInput());
      case State::kCommit:
        return GraphqlBody(kCommit, "CommitArtifact", {{"artifactID", artifact_id_}});
      default:
        return ManifestQuery();
    }
  }

  absl::Status OnAnswer(absl::string_view body) override {
    switch (state_) {
      case State::kCreate: {
        ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifact"));
        artifact_id_ = TextAt(made, {"artifact", "id"});
        base_id_ = TextAt(made, {"artifact", "artifactSequence", "latestArtifact", "id"});
        const std::string state = TextAt(made, {"artifact", "state"});
        if (artifact_id_.empty()) return NotAnAnswer("CreateArtifact");
        if (state != "COMMITTED" && state != "PENDING" && state != "DELETED") {
          return absl::FailedPreconditionError(absl::StrCat("the artifact is ", state));
        }
        if (TextOf(before_, "artifact") != artifact_id_ || state == "DELETED") before_ = nullptr;
        // Equal content is there already.
        state_ = state == "COMMITTED" ? State::kDone : State::kManifest;
        return absl::OkStatus();
      }
      case State::kManifest: {
        ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifactManifest"));
        manifest_id_ = TextAt(made, {"artifactManifest", "id"});
        if (manifest_id_.empty()) return NotAnAnswer("CreateArtifactManifest");
        NextFiles();
        return absl::OkStatus();
      }
      case State::kFiles:
        return OnFiles(body);
      case State::kComplete: {
        RETURN_IF_ERROR(ParseGraphql(body, "completeMultipartUploadArtifact").status());
        FileSent();
        return absl::OkStatus();
      }
      case State::kUploadManifest: {
        ASSIGN_OR_RETURN(const json made,
                         ParseGraphql(body, IsIncremental() ? "updateArtifactManifest"
                                                            : "createArtifactManifest"));
        upload_.url = TextAt(made, {"artifactManifest", "file", "uploadUrl"});
        upload_.headers = HeadersIn(made, {"artifactManifest", "file", "uploadHeaders"});
        if (upload_.url.empty()) return NotAnAnswer("CreateArtifactManifest");
        state_ = State::kPutManifest;
        return absl::OkStatus();
      }
      default: {
        RETURN_IF_ERROR(ParseGraphql(body, "commitArtifact").status());
        state_ = State::kDone;
        return absl::OkStatus();
      }
    }
  }

  HttpRequest Put() const override {
    HttpRequest request;
    request.method = "PUT";
    request.timeout = kIdle;
    if (state_ == State::kPutManifest) {
      request.url = upload_.url;
      request.headers = upload_.headers;
      request.body = manifest_;
      return request;
    }
    const Upload& upload = uploads_.back();
    const Entry& entry = upload.entry->second;
    request.file = FileRange{absl::StrCat(place_.staged, "/", entry.staged), 0, entry.bytes};
    if (upload.part_urls.empty()) {
      request.url = upload.url;
      request.headers = upload.headers;
      return request;
    }
    const size_t part = upload.tags.size();
    request.url = upload.part_urls[part];
    request.file->offset = part * PartBytes(entry);
    request.file->bytes = BytesOfPart(entry, part);
    request.headers = {{"Content-Md5", absl::Base64Escape(entry.parts[part])}};
    for (const auto& [name, value] : upload.headers) {
      if (absl::EqualsIgnoreCase(name, "Content-Type")) request.headers.emplace_back(name, value);
    }
    return request;
  }

  absl::Status OnPut(const HttpResponse& answer) override {
    if (state_ == State::kPutManifest) {
      state_ = State::kCommit;
      return absl::OkStatus();
    }
    Upload& upload = uploads_.back();
    const Entry& entry = upload.entry->second;
    if (upload.part_urls.empty()) {
      sent_.bytes += entry.bytes;
      FileSent();
      return absl::OkStatus();
    }
    const auto tag = answer.headers.find("etag");
    if (tag == answer.headers.end()) return absl::InternalError("a part got no ETag");
    sent_.bytes += BytesOfPart(entry, upload.tags.size());
    upload.tags.push_back(tag->second);
    NextUpload();
    return absl::OkStatus();
  }

  Sent sent() const override { return sent_; }
  std::string Name() const override { return absl::StrCat("artifact ", TextOf(artifact_, "name")); }

 private:
  void Begin() {
    state_ = State::kCreate;
    uploads_.clear();
    batch_.clear();
    batch_sent_.clear();
    sent_ = Sent();
    next_ = entries_.begin();
    SkipReferences();
  }

  enum class State {
    kHash,
    kCreate,
    kManifest,
    kFiles,
    kPutFile,
    kComplete,
    kUploadManifest,
    kPutManifest,
    kCommit,
    kDone
  };
  struct Entry {
    std::string ref;
    std::string staged;
    uint64_t bytes = 0;
    std::string digest;              // Base64
    std::vector<std::string> parts;  // the MD5 of each, if it is sent in parts
    std::string birth;               // the artifact that has the file at the server
  };
  using Entries = std::map<std::string, Entry>;
  struct Upload {
    Entries::iterator entry;
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
    std::string storage_path;
    std::string upload_id;
    std::vector<std::string> part_urls;
    std::vector<std::string> tags;  // of the parts that were sent
  };

  static absl::Status NotAnAnswer(const char* operation) {
    return absl::InternalError(absl::StrCat(operation, ": the answer is incomplete"));
  }

  bool IsInParts(const Entry& entry) const { return entry.bytes >= place_.multipart_bytes; }
  // S3 takes 10,000 parts at most.
  uint64_t PartBytes(const Entry& entry) const {
    constexpr uint64_t kMostParts = 10000, kPage = 4096;
    const uint64_t least = (entry.bytes + kMostParts - 1) / kMostParts;
    return std::max(place_.part_bytes, (least + kPage - 1) / kPage * kPage);
  }

  uint64_t BytesOfPart(const Entry& entry, size_t part) const {
    return std::min(PartBytes(entry), entry.bytes - part * PartBytes(entry));
  }

  // Its files are added to those of the version before it.
  bool IsIncremental() const { return MemberOf(artifact_, "incremental") == true; }

  // A full manifest is made once more with its digest, an incremental one is updated: as the official
  // client.
  std::string ManifestQuery() const {
    const bool upload = state_ == State::kUploadManifest;
    const std::string digest = upload ? absl::Base64Escape(Md5Of(manifest_)) : "";
    if (upload && IsIncremental()) {
      return GraphqlBody(kUpdateManifest, "UpdateArtifactManifest",
                         {{"artifactManifestID", manifest_id_},
                          {"digest", digest},
                          {"baseArtifactID", OrNull(base_id_)},
                          {"includeUpload", true}});
    }
    return GraphqlBody(
        kManifest, "CreateArtifactManifest",
        {{"artifactID", artifact_id_},
         {"baseArtifactID", OrNull(base_id_)},
         {"name", IsIncremental() ? "wandb_manifest.incremental.json" : "wandb_manifest.json"},
         {"digest", digest},
         {"entityName", place_.entity},
         {"projectName", place_.project},
         {"runName", place_.run_id},
         {"manifestType", IsIncremental() ? "INCREMENTAL" : "FULL"},
         {"includeUpload", upload}});
  }

  // Moves `next_` to a file.
  void SkipReferences() {
    while (next_ != entries_.end() && !next_->second.ref.empty()) ++next_;
  }

  Json CreateInput() const {
    Json aliases = Json::array();
    for (const Json& alias : MemberOf(artifact_, "aliases")) {
      aliases.push_back({{"artifactCollectionName", TextOf(artifact_, "name")}, {"alias", alias}});
    }
    const Json& metadata = MemberOf(artifact_, "metadata");
    const int64_t step = IntegerOf(artifact_, "step");
    const std::string id = TextOf(artifact_, "id");
    Json input = {{"entityName", place_.entity},
                  {"projectName", place_.project},
                  {"artifactTypeName", TextOf(artifact_, "type")},
                  {"artifactCollectionName", TextOf(artifact_, "name")},
                  {"runName", place_.run_id},
                  {"digest", digest_},
                  {"digestAlgorithm", "MANIFEST_MD5"},
                  {"description", OrNull(TextOf(artifact_, "description"))},
                  {"aliases", std::move(aliases)},
                  {"metadata", metadata.is_object() ? Json(ToJsonText(metadata)) : Json(nullptr)},
                  {"historyStep", step > 0 ? Json(step) : Json(nullptr)},
                  {"enableDigestDeduplication", true},
                  {"distributedID", nullptr},
                  {"clientID", LongId(id)},
                  {"sequenceClientID", LongId(absl::StrCat(id, "-sequence"))}};
    Json tags = Json::array();
    for (const Json& tag : MemberOf(artifact_, "tags")) tags.push_back({{"tagName", tag}});
    if (!tags.empty()) input["tags"] = std::move(tags);
    return input;
  }

  // Asks for the next files, if there are any.
  void NextFiles() {
    if (next_ != entries_.end()) {
      state_ = State::kFiles;
      return;
    }
    Json contents = Json::object();
    for (const auto& [path, entry] : entries_) {
      Json& to = contents[path] = {{"digest", entry.digest}, {"size", entry.bytes}};
      if (entry.ref.empty()) {
        to["birthArtifactID"] = entry.birth;
      } else {
        to["ref"] = entry.ref;
      }
    }
    manifest_ = ToJsonText({{"version", 1},
                            {"storagePolicy", "wandb-storage-policy-v1"},
                            {"storagePolicyConfig", {{"storageLayout", "V2"}}},
                            {"contents", std::move(contents)}});
    state_ = State::kUploadManifest;
  }

  // Calls visit(entry) with the files of the next query.
  template <typename Fn>
  void ForNextFiles(const Fn& visit) const {
    size_t count = 0;
    for (auto entry = next_; entry != entries_.end() && count < kFilesPerQuery; ++entry) {
      if (!entry->second.ref.empty()) continue;
      ++count;
      visit(entry);
    }
  }

  Json FilesInput() const {
    Json files = Json::array();
    ForNextFiles([&](Entries::iterator entry) {
      Json parts = nullptr;
      for (size_t i = 0; i < entry->second.parts.size(); ++i) {
        parts.push_back(
            {{"partNumber", i + 1}, {"hexMD5", absl::BytesToHexString(entry->second.parts[i])}});
      }
      files.push_back({{"artifactID", artifact_id_},
                       {"artifactManifestID", manifest_id_},
                       {"md5", entry->second.digest},
                       {"name", entry->first},
                       {"mimetype", nullptr},
                       {"uploadPartsInput", std::move(parts)}});
    });
    return files;
  }

  absl::Status OnFiles(absl::string_view body) {
    ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifactFiles"));
    const json edges = At(made, {"files", "edges"});
    std::vector<Entries::iterator> asked;
    ForNextFiles([&](Entries::iterator entry) { asked.push_back(entry); });
    const std::string batch = asked.front()->first;
    std::vector<std::string> batch_sent;
    if (!edges.is_array() || edges.size() != asked.size()) {
      return NotAnAnswer("CreateArtifactFiles");
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      const json node = At(edges[i], {"node"});
      Entry& entry = asked[i]->second;
      entry.birth = TextAt(node, {"artifact", "id"});
      if (entry.birth.empty()) return NotAnAnswer("CreateArtifactFiles");
      Upload upload{.entry = asked[i],
                    .url = TextAt(node, {"uploadUrl"}),
                    .headers = HeadersIn(node, {"uploadHeaders"}),
                    .storage_path = TextAt(node, {"storagePath"}),
                    .upload_id = TextAt(node, {"uploadMultipartUrls", "uploadID"}),
                    .part_urls = {},
                    .tags = {}};
      if (upload.url.empty() || WasSent(asked[i]->first)) {  // the server has the content
        ++sent_.files;
        sent_.bytes += entry.bytes;
        batch_sent.push_back(asked[i]->first);
        continue;
      }
      const json parts = At(node, {"uploadMultipartUrls", "uploadUrlParts"});
      if (parts.is_array()) {
        for (const json& part : parts) upload.part_urls.push_back(TextAt(part, {"uploadUrl"}));
        if (upload.part_urls.size() != entry.parts.size()) {
          return NotAnAnswer("CreateArtifactFiles");
        }
      }
      ContinueParts(&upload);
      uploads_.push_back(std::move(upload));
    }
    batch_ = batch;
    batch_sent_ = std::move(batch_sent);
    next_ = std::next(asked.back());
    SkipReferences();
    NextUpload();
    return absl::OkStatus();
  }

  bool WasSent(const std::string& path) const {
    if (!before_.is_object()) return false;
    const Json& sent = MemberOf(before_, "sent");
    return path < TextOf(before_, "batch") ||
           std::find(sent.begin(), sent.end(), path) != sent.end();
  }

  // Goes on with the parts of an earlier life.
  void ContinueParts(Upload* upload) {
    const Json& parts = MemberOf(before_, "parts");
    const Entry& entry = upload->entry->second;
    const auto texts = [&parts](const char* key) {
      std::vector<std::string> values;
      for (const Json& value : MemberOf(parts, key)) {
        if (value.is_string()) values.push_back(value.get<std::string>());
      }
      return values;
    };
    std::vector<std::string> urls = texts("urls");
    std::vector<std::string> tags = texts("tags");
    if (TextOf(parts, "path") != upload->entry->first || urls.size() != entry.parts.size() ||
        tags.size() > urls.size()) {
      return;
    }
    upload->storage_path = TextOf(parts, "storage");
    upload->upload_id = TextOf(parts, "id");
    upload->part_urls = std::move(urls);
    upload->tags = std::move(tags);
    upload->headers.clear();
    for (const Json& header : MemberOf(parts, "headers")) {
      upload->headers.emplace_back(header.at(0).get<std::string>(),
                                   header.at(1).get<std::string>());
    }
    for (size_t i = 0; i < upload->tags.size(); ++i) sent_.bytes += BytesOfPart(entry, i);
  }

  void NextUpload() {
    if (uploads_.empty()) return NextFiles();
    const Upload& next = uploads_.back();
    const bool all_parts = !next.part_urls.empty() && next.tags.size() == next.part_urls.size();
    state_ = all_parts ? State::kComplete : State::kPutFile;
  }

  Json CompleteInput() const {
    const Upload& upload = uploads_.back();
    Json parts = Json::array();
    for (size_t i = 0; i < upload.tags.size(); ++i) {
      parts.push_back({{"partNumber", i + 1}, {"hexMD5", upload.tags[i]}});
    }
    return {{"completeMultipartAction", "Complete"},
            {"completedParts", std::move(parts)},
            {"artifactID", upload.entry->second.birth},
            {"storagePath", upload.storage_path},
            {"uploadID", upload.upload_id}};
  }

  void FileSent() {
    ++sent_.files;
    batch_sent_.push_back(uploads_.back().entry->first);
    uploads_.pop_back();
    NextUpload();
  }

  const Json artifact_;
  const Place place_;
  State state_ = State::kHash;
  mutable Entries entries_;
  Entries::iterator next_;  // the next file to read, or to ask for
  StagedFile reader_;
  std::string digest_;
  std::string artifact_id_;
  std::string base_id_;
  std::string manifest_id_;
  std::string manifest_;
  std::vector<Upload> uploads_;  // the last one is next
  std::string batch_;            // the first path of the last query for files
  std::vector<std::string> batch_sent_;
  Json before_ = nullptr;  // Progress() of an earlier attempt at this artifact
  Sent sent_;
  struct {
    std::string url;
    std::vector<std::pair<std::string, std::string>> headers;
  } upload_;  // of the manifest
};

class RunFileUpload : public ContentUpload {
 public:
  RunFileUpload(const Json& file, Place place)
      : path_(TextOf(file, "path")),
        staged_(TextOf(file, "file")),
        bytes_(static_cast<uint64_t>(std::max<int64_t>(IntegerOf(file, "bytes"), 0))),
        place_(std::move(place)) {}

  Work work() const override {
    if (is_done_) return Work::kDone;
    if (!is_found_) return Work::kRead;
    return url_.empty() ? Work::kQuery : Work::kPut;
  }
  absl::Status Read(size_t /*bytes*/) override {
    StagedFile file;
    RETURN_IF_ERROR(file.Open(place_.staged, staged_, bytes_, /*part_bytes=*/0));
    is_found_ = true;
    return absl::OkStatus();
  }
  std::string Query() const override {
    return RunFilesBody(place_.entity, place_.project, place_.run_id, {path_});
  }
  absl::Status OnAnswer(absl::string_view body) override {
    ASSIGN_OR_RETURN(UploadUrls uploads, ParseRunFiles(body));
    url_ = uploads.urls[path_];
    headers_ = std::move(uploads.headers);
    return url_.empty() ? absl::FailedPreconditionError("the server gives no address for it")
                        : absl::OkStatus();
  }
  HttpRequest Put() const override {
    HttpRequest request;
    request.method = "PUT";
    request.url = url_;
    request.headers = headers_;
    request.timeout = kIdle;
    request.file = FileRange{absl::StrCat(place_.staged, "/", staged_), 0, bytes_};
    return request;
  }
  absl::Status OnPut(const HttpResponse& /*answer*/) override {
    is_done_ = true;
    return absl::OkStatus();
  }
  void Restart(bool /*refused*/) override { url_.clear(); }
  Sent sent() const override { return {}; }
  std::string Name() const override { return absl::StrCat("file ", path_); }

 private:
  const std::string path_;
  const std::string staged_;
  const uint64_t bytes_;
  const Place place_;
  bool is_found_ = false;
  bool is_done_ = false;
  std::string url_;
  std::vector<std::pair<std::string, std::string>> headers_;
};

}  // namespace

std::string ArtifactDigest(const std::map<std::string, std::string>& entries) {
  Md5 md5;
  md5.Add("wandb-artifact-manifest-v1\n");
  for (const auto& [path, digest] : entries) md5.Add(absl::StrCat(path, ":", digest, "\n"));
  return absl::BytesToHexString(md5.Finish());
}

std::unique_ptr<ContentUpload> UploadArtifact(const model::Item& item, ContentUpload::Place place) {
  return std::make_unique<ArtifactUpload>(item.object, std::move(place));
}

std::unique_ptr<ContentUpload> UploadRunFile(const model::Item& item, ContentUpload::Place place) {
  return std::make_unique<RunFileUpload>(item.object, std::move(place));
}

}  // namespace ranklog::deliver::wandb
