// An artifact on its way to the server: which query or file is next, and what the answers say.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/json/json_members.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/artifacts/artifact_entry.h"
#include "service/deliver/wandb/artifacts/artifact_manifest.h"
#include "service/deliver/wandb/artifacts/artifact_queries.h"
#include "service/deliver/wandb/artifacts/content_upload.h"
#include "service/deliver/wandb/artifacts/file_upload.h"
#include "service/deliver/wandb/artifacts/staged_file.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using nlohmann::json;

// Addresses expire, and an answer must not be too large.
constexpr size_t kFilesPerQuery = 100;

class ArtifactUpload : public ContentUpload {
 public:
  ArtifactUpload(const Json& artifact, Place place)
      : artifact_(artifact), place_(std::move(place)) {
    for (const Json& entry : MemberOf(artifact_, "entries")) {
      ArtifactEntry& to = entries_[TextOf(entry, "path")];
      to.ref = TextOf(entry, "ref");
      to.bytes = static_cast<uint64_t>(std::max<int64_t>(IntegerOf(entry, "bytes"), 0));
      to.part_bytes = PartBytes(to.bytes, place_);
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
      ArtifactEntry& entry = next_->second;
      if (!reader_.is_open()) {
        RETURN_IF_ERROR(reader_.Open(place_.staged, entry.staged, entry.bytes, entry.part_bytes));
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
    Json progress = {{"artifact", ids_.artifact}, {"batch", batch_}, {"sent", batch_sent_}};
    Json parts = uploads_.empty() ? Json(nullptr) : uploads_.back().PartsProgress();
    if (!parts.is_null()) progress["parts"] = std::move(parts);
    return progress;
  }

  void Continue(Json progress) override {
    if (progress.is_object()) before_ = std::move(progress);
  }

  std::string Query() const override {
    switch (state_) {
      case State::kCreate:
        return CreateArtifactBody(artifact_, digest_, place_);
      case State::kFiles:
        return ArtifactFilesBody(ids_, NextFiles());
      case State::kComplete:
        return CompleteBody(uploads_.back());
      case State::kCommit:
        return CommitArtifactBody(ids_.artifact);
      default:
        return ManifestBody(ids_, IsIncremental(),
                            state_ == State::kUploadManifest ? &manifest_ : nullptr, place_);
    }
  }

  absl::Status OnAnswer(absl::string_view body) override {
    switch (state_) {
      case State::kCreate: {
        ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifact"));
        ids_.artifact = TextAt(made, {"artifact", "id"});
        ids_.base = TextAt(made, {"artifact", "artifactSequence", "latestArtifact", "id"});
        const std::string state = TextAt(made, {"artifact", "state"});
        if (ids_.artifact.empty()) return NotAnAnswer("CreateArtifact");
        if (state != "COMMITTED" && state != "PENDING" && state != "DELETED") {
          return absl::FailedPreconditionError(absl::StrCat("the artifact is ", state));
        }
        if (TextOf(before_, "artifact") != ids_.artifact || state == "DELETED") before_ = nullptr;
        // Equal content is there already.
        state_ = state == "COMMITTED" ? State::kDone : State::kManifest;
        return absl::OkStatus();
      }
      case State::kManifest: {
        ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifactManifest"));
        ids_.manifest = TextAt(made, {"artifactManifest", "id"});
        if (ids_.manifest.empty()) return NotAnAnswer("CreateArtifactManifest");
        AskForFiles();
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
        manifest_url_ = TextAt(made, {"artifactManifest", "file", "uploadUrl"});
        manifest_headers_ = HeadersIn(made, {"artifactManifest", "file", "uploadHeaders"});
        if (manifest_url_.empty()) return NotAnAnswer("CreateArtifactManifest");
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
    if (state_ == State::kPutManifest) {
      request.url = manifest_url_;
      request.headers = manifest_headers_;
      request.body = manifest_;
    } else {
      request = uploads_.back().NextPut(place_.staged);
    }
    request.method = "PUT";
    request.timeout = kIdle;
    return request;
  }

  absl::Status OnPut(const HttpResponse& answer) override {
    if (state_ == State::kPutManifest) {
      state_ = State::kCommit;
      return absl::OkStatus();
    }
    FileUpload& upload = uploads_.back();
    const ArtifactEntry& entry = upload.entry->second;
    if (upload.part_urls.empty()) {
      sent_.bytes += entry.bytes;
      FileSent();
      return absl::OkStatus();
    }
    const auto tag = answer.headers.find("etag");
    if (tag == answer.headers.end()) return absl::InternalError("a part got no ETag");
    sent_.bytes += entry.BytesOfPart(upload.tags.size());
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

  static absl::Status NotAnAnswer(const char* operation) {
    return absl::InternalError(absl::StrCat(operation, ": the answer is incomplete"));
  }

  // Its files are added to those of the version before it.
  bool IsIncremental() const { return MemberOf(artifact_, "incremental") == true; }

  // Moves `next_` to a file.
  void SkipReferences() {
    while (next_ != entries_.end() && !next_->second.ref.empty()) ++next_;
  }

  // Asks for the next files, if there are any.
  void AskForFiles() {
    if (next_ != entries_.end()) {
      state_ = State::kFiles;
      return;
    }
    manifest_ = ManifestText(entries_);
    state_ = State::kUploadManifest;
  }

  // The files of the next query.
  std::vector<ArtifactEntries::iterator> NextFiles() const {
    std::vector<ArtifactEntries::iterator> files;
    for (auto entry = next_; entry != entries_.end() && files.size() < kFilesPerQuery; ++entry) {
      if (entry->second.ref.empty()) files.push_back(entry);
    }
    return files;
  }

  absl::Status OnFiles(absl::string_view body) {
    ASSIGN_OR_RETURN(const json made, ParseGraphql(body, "createArtifactFiles"));
    const json edges = At(made, {"files", "edges"});
    const std::vector<ArtifactEntries::iterator> asked = NextFiles();
    const std::string batch = asked.front()->first;
    std::vector<std::string> batch_sent;
    if (!edges.is_array() || edges.size() != asked.size()) {
      return NotAnAnswer("CreateArtifactFiles");
    }
    for (size_t i = 0; i < asked.size(); ++i) {
      const json node = At(edges[i], {"node"});
      ArtifactEntry& entry = asked[i]->second;
      entry.birth = TextAt(node, {"artifact", "id"});
      if (entry.birth.empty()) return NotAnAnswer("CreateArtifactFiles");
      FileUpload upload{.entry = asked[i],
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
      sent_.bytes += upload.ContinueParts(MemberOf(before_, "parts"));
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

  void NextUpload() {
    if (uploads_.empty()) return AskForFiles();
    state_ = uploads_.back().HasAllParts() ? State::kComplete : State::kPutFile;
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
  mutable ArtifactEntries entries_;
  ArtifactEntries::iterator next_;  // the next file to read, or to ask for
  StagedFile reader_;
  std::string digest_;
  ArtifactIds ids_;
  std::string manifest_;
  std::vector<FileUpload> uploads_;  // the last one is next
  std::string batch_;                // the first path of the last query for files
  std::vector<std::string> batch_sent_;
  Json before_ = nullptr;  // Progress() of an earlier attempt at this artifact
  Sent sent_;
  std::string manifest_url_;
  std::vector<std::pair<std::string, std::string>> manifest_headers_;
};

}  // namespace

std::unique_ptr<ContentUpload> UploadArtifact(const model::Item& item, ContentUpload::Place place) {
  return std::make_unique<ArtifactUpload>(item.object, std::move(place));
}

}  // namespace ranklog::deliver::wandb
