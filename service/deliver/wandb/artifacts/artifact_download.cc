#include "service/deliver/wandb/artifacts/artifact_download.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/unique_fd.h"
#include "service/deliver/asker.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/wandb/api/base_url.h"
#include "service/deliver/wandb/api/graphql.h"
#include "service/deliver/wandb/artifacts/artifact_name.h"
#include "service/deliver/wandb/artifacts/md5.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

namespace fs = std::filesystem;

using nlohmann::json;

constexpr char kManifestUrl[] =
    "query FetchArtifactManifest($id: ID!) { artifact(id: $id) { currentManifest { file { "
    "directUrl } } } }";
constexpr char kFileUrls[] =
    "query GetArtifactMembershipFileUrls($entity: String!, $project: String!, "
    "$collection: String!, $alias: String!, $cursor: String, $perPage: Int) { "
    "project(name: $project, entityName: $entity) { artifactCollection(name: $collection) { "
    "artifactMembership(aliasName: $alias) { files(after: $cursor, first: $perPage) { "
    "pageInfo { hasNextPage endCursor } edges { node { name directUrl } } } } } } }";

constexpr int kFilesPerPage = 1000;         // the addresses expire
constexpr size_t kMaxManifest = 512 << 20;  // 10,000 bytes per file are allowed, 200 are usual
constexpr size_t kMaxUrls = 64 << 20;       // a signed address has some kilobytes
constexpr int kMostRedirects = 5;
// Of a file that is not whole yet. Another process may download the same one to the same place.
constexpr char kPartSuffix[] = ".ranklog-part.XXXXXX";

struct ManifestEntry {
  std::string digest;  // 16 bytes
  uint64_t bytes = 0;
};

// A path that stays in the directory.
bool IsSafe(const std::string& path) {
  if (path.empty() || path.find('\0') != std::string::npos) return false;
  const fs::path parsed(path);
  return parsed.is_relative() && parsed.has_filename() &&
         std::none_of(parsed.begin(), parsed.end(),
                      [](const fs::path& part) { return part == ".."; });
}

absl::Status Failed(const char* what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat(what, " ", path));
}

// Whether the file has these bytes.
bool HasContent(const std::string& path, const ManifestEntry& entry) {
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) ||
      static_cast<uint64_t>(info.st_size) != entry.bytes) {
    return false;
  }
  Md5 md5;
  std::string buffer(1 << 20, '\0');
  while (true) {
    const ssize_t got = read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got == 0 && md5.Finish() == entry.digest;
    md5.Add(absl::string_view(buffer.data(), static_cast<size_t>(got)));
  }
}

class Download {
 public:
  Download(const std::string& server, Transport& transport, const Credential& credential,
           ArtifactName name, const DownloadOptions& options)
      : server_(server),
        transport_(transport),
        name_(std::move(name)),
        options_(options),
        asker_(Wandb(), &transport, credential, options.asking) {}

  absl::StatusOr<DownloadReport> Run() {
    ASSIGN_OR_RETURN(std::string body, Ask(FindArtifactBody(name_)));
    ASSIGN_OR_RETURN(found_, ParseFoundArtifact(body, name_));
    if (!options_.type.empty() && options_.type != found_.type) {
      return absl::InvalidArgumentError(
          absl::StrCat("the artifact ", name_.name, " has the type ", found_.type));
    }
    report_.version =
        absl::StrCat(found_.entity, "/", found_.project, "/", name_.name, ":v", found_.version);
    RETURN_IF_ERROR(ReadManifest());
    RETURN_IF_ERROR(KeepWhatIsThere());
    std::string cursor;
    for (bool more = !wanted_.empty(); more;) {
      ASSIGN_OR_RETURN(more, FetchPage(&cursor));
    }
    if (wanted_.empty()) return std::move(report_);
    return absl::InternalError(
        absl::StrCat("the server gives no address for ", wanted_.begin()->first));
  }

 private:
  absl::StatusOr<std::string> Ask(std::string body) const {
    HttpRequest request;
    request.url = GraphqlUrl(server_);
    request.headers = {{"Content-Type", "application/json"}};
    request.body = std::move(body);
    request.max_answer = kMaxUrls;
    return asker_.Ask(std::move(request));
  }

  // Gets a part of a file from a store of files. `bytes` 0: the whole, which may be shorter than
  // `most`. A store that knows no ranges sends the whole file.
  absl::StatusOr<std::string> Get(std::string url, uint64_t offset, uint64_t bytes,
                                  size_t most) const {
    const absl::Time deadline = options_.asking.now() + options_.asking.timeout;
    Backoff backoff(options_.asking.backoff);
    for (int redirects = 0;;) {
      HttpRequest request;
      request.method = "GET";
      request.url = absl::StartsWith(url, "/") ? absl::StrCat(server_, url) : url;
      if (bytes > 0) {
        request.headers = {{"Range", absl::StrCat("bytes=", offset, "-", offset + bytes - 1)},
                           {"Accept-Encoding", "identity"}};  // a range of the file itself
      }
      request.timeout = absl::Minutes(5);
      request.max_answer = most + 1;
      absl::StatusOr<HttpResponse> answer = transport_.Send(request);
      const int code = answer.ok() ? answer->code : 0;
      if (code == 200 || code == 206) {
        if (bytes == 0 || (code == 206 && answer->body.size() == bytes) ||
            (offset == 0 && answer->body.size() == bytes)) {
          if (answer->body.size() <= most) return std::move(answer->body);
        }
        return absl::AbortedError("the store of files sent another part of the file");
      }
      if (code >= 301 && code <= 308 && answer->headers.count("location") > 0 &&
          ++redirects <= kMostRedirects) {
        url = answer->headers.at("location");
        continue;
      }
      const Outcome outcome = Classify(answer);
      if (outcome != Outcome::kLater) return absl::FailedPreconditionError(Explain(answer));
      const absl::Duration wait =
          backoff.Next(outcome, answer.ok() ? answer->retry_after : absl::nullopt);
      if (options_.asking.now() + wait > deadline) return absl::UnavailableError(Explain(answer));
      options_.asking.sleep(wait);
    }
  }

  absl::Status ReadManifest() {
    ASSIGN_OR_RETURN(const std::string body,
                     Ask(GraphqlBody(kManifestUrl, "FetchArtifactManifest", {{"id", found_.id}})));
    ASSIGN_OR_RETURN(const json artifact, ParseGraphql(body, "artifact"));
    const std::string url = TextAt(artifact, {"currentManifest", "file", "directUrl"});
    if (url.empty()) return absl::InternalError("the server gives no address for the manifest");
    ASSIGN_OR_RETURN(const std::string text, Get(url, 0, 0, kMaxManifest));
    const json manifest = json::parse(text, nullptr, /*allow_exceptions=*/false);
    const json contents = At(manifest, {"contents"});
    if (!contents.is_object()) return absl::InternalError("the manifest cannot be read");
    for (const auto& [path, entry] : contents.items()) {
      if (const std::string reference = TextAt(entry, {"ref"}); !reference.empty()) {
        report_.references.push_back(reference);
        continue;
      }
      if (!IsSafe(path)) {
        return absl::InvalidArgumentError(
            absl::StrCat("the artifact has a file with an unsafe path: ", path));
      }
      ManifestEntry wanted;
      const json size = At(entry, {"size"});
      if (!absl::Base64Unescape(TextAt(entry, {"digest"}), &wanted.digest) ||
          wanted.digest.size() != 16 || !size.is_number_unsigned()) {
        return absl::InternalError(absl::StrCat("the manifest has no size and MD5 of ", path));
      }
      wanted.bytes = size.get<uint64_t>();
      report_.bytes += wanted.bytes;
      wanted_[path] = std::move(wanted);
    }
    report_.files = wanted_.size();
    return absl::OkStatus();
  }

  std::string PathOf(const std::string& name) const {
    return absl::StrCat(options_.root, "/", name);
  }

  void Advance(uint64_t bytes) {
    done_ += bytes;
    if (options_.asking.progress) options_.asking.progress(done_, report_.bytes);
  }

  absl::Status KeepWhatIsThere() {
    std::error_code error;
    fs::create_directories(options_.root, error);
    if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot make ", options_.root, ": ", error.message()));
    }
    for (auto entry = wanted_.begin(); entry != wanted_.end();) {
      if (!HasContent(PathOf(entry->first), entry->second)) {
        ++entry;
        continue;
      }
      ++report_.present;
      Advance(entry->second.bytes);
      entry = wanted_.erase(entry);
    }
    return absl::OkStatus();
  }

  // Fetches the wanted files of a page. False: it was the last one.
  absl::StatusOr<bool> FetchPage(std::string* cursor) {
    ASSIGN_OR_RETURN(const std::string body,
                     Ask(GraphqlBody(kFileUrls, "GetArtifactMembershipFileUrls",
                                     {{"entity", found_.entity},
                                      {"project", found_.project},
                                      {"collection", name_.name},
                                      {"alias", absl::StrCat("v", found_.version)},
                                      {"cursor", OrNull(*cursor)},
                                      {"perPage", kFilesPerPage}})));
    ASSIGN_OR_RETURN(const json project, ParseGraphql(body, "project"));
    const json files = At(project, {"artifactCollection", "artifactMembership", "files"});
    for (const json& edge : At(files, {"edges"})) {
      const auto wanted = wanted_.find(TextAt(edge, {"node", "name"}));
      if (wanted == wanted_.end()) continue;
      RETURN_IF_ERROR(Fetch(wanted->first, wanted->second, TextAt(edge, {"node", "directUrl"})));
      wanted_.erase(wanted);
    }
    *cursor = TextAt(files, {"pageInfo", "endCursor"});
    return At(files, {"pageInfo", "hasNextPage"}) == true && !cursor->empty();
  }

  absl::Status Fetch(const std::string& name, const ManifestEntry& entry, const std::string& url) {
    const std::string path = PathOf(name);
    std::string part = path + kPartSuffix;
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    const UniqueFd file(mkostemp(part.data(), O_CLOEXEC));
    if (!file.valid() || fchmod(file.get(), 0644) != 0) return Failed("cannot write", part);
    absl::Cleanup remove = [&part] { unlink(part.c_str()); };
    Md5 md5;
    for (uint64_t at = 0; at < entry.bytes;) {
      const uint64_t bytes = std::min<uint64_t>(options_.piece_bytes, entry.bytes - at);
      ASSIGN_OR_RETURN(const std::string piece, Get(url, at, bytes, bytes));
      md5.Add(piece);
      for (size_t written = 0; written < piece.size();) {
        const ssize_t more = write(file.get(), piece.data() + written, piece.size() - written);
        if (more < 0 && errno == EINTR) continue;
        if (more <= 0) return Failed("cannot write", part);
        written += static_cast<size_t>(more);
      }
      at += bytes;
      Advance(bytes);
    }
    if (md5.Finish() != entry.digest) {
      return absl::AbortedError(
          absl::StrCat(name, " is not what the manifest says: its MD5 differs"));
    }
    if (fsync(file.get()) != 0) return Failed("cannot write", part);
    if (rename(part.c_str(), path.c_str()) != 0) return Failed("cannot write", path);
    std::move(remove).Cancel();
    return absl::OkStatus();
  }

  const std::string server_;
  Transport& transport_;
  const ArtifactName name_;
  const DownloadOptions& options_;
  const Asker asker_;
  FoundArtifact found_;
  std::map<std::string, ManifestEntry> wanted_;  // not there yet
  DownloadReport report_;
  uint64_t done_ = 0;  // bytes
};

}  // namespace

absl::StatusOr<DownloadReport> DownloadArtifact(Transport& transport, const std::string& server,
                                                const Credential& credential,
                                                const DownloadOptions& options) {
  ASSIGN_OR_RETURN(ArtifactName name,
                   ParseArtifactName(options.name, options.entity, options.project));
  return Download(server, transport, credential, std::move(name), options).Run();
}

}  // namespace ranklog::deliver::wandb
