// The part of WandbServer that keeps the files of runs.

#include <cctype>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/support/wandb_server.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

// A path is /storage/KIND/OWNER/NAME. The last two are percent-encoded, so a name has no slash.
constexpr char kQuery[] = "signature=fake";
constexpr char kUploadHeader[] = "x-fake-upload";

std::string Encode(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0 || c == '-' || c == '.' || c == '_' || c == '~') {
      encoded += c;
    } else {
      encoded += {'%', kDigits[byte >> 4], kDigits[byte & 15]};
    }
  }
  return encoded;
}

std::string Decode(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    int byte = 0;
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      decoded += static_cast<char>(byte);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

struct Object {
  bool signed_url = false;
  std::string kind;
  std::string owner;
  std::string name;
};

Object ObjectOf(const std::string& target) {
  const std::vector<std::string> halves = absl::StrSplit(target, absl::MaxSplits('?', 1));
  const std::vector<std::string> parts = absl::StrSplit(halves[0], '/');
  if (parts.size() < 4 || parts[parts.size() - 4] != "storage") return {};
  const size_t kind = parts.size() - 3;
  return {.signed_url = halves.size() == 2 && halves[1] == kQuery,
          .kind = parts[kind],
          .owner = Decode(parts[kind + 1]),
          .name = Decode(parts[kind + 2])};
}

}  // namespace

std::string WandbServer::StorageUrl(const std::string& kind, const std::string& owner,
                                    const std::string& name) const {
  return absl::StrCat(storage_url_, "/storage/", kind, "/", Encode(owner), "/", Encode(name), "?",
                      kQuery);
}

WandbServer::Answer WandbServer::CreateRunFiles(const json& variables) {
  const auto found = runs_.find(TextOf(variables, "run"));
  if (found == runs_.end()) {
    return {200, {{"errors", {{{"message", "no such run"}}}}, {"data", nullptr}}};
  }
  Run& run = found->second;
  json files = json::array();
  for (const json& file : variables.value("files", json::array())) {
    const std::string name = file.get<std::string>();
    if (run.files.count(name) == 0) run.awaited.insert(name);
    files.push_back({{"name", name}, {"uploadUrl", StorageUrl("run", run.run_id, name)}});
  }
  return {200,
          {{"data",
            {{"createRunFiles",
              {{"runID", run.storage_id},
               {"uploadHeaders", {absl::StrCat(kUploadHeader, ":yes")}},
               {"files", std::move(files)}}}}}}};
}

// The files are in the store, and no post follows that could confirm them.
WandbServer::Answer WandbServer::MarkRunFilesUploaded(const json& variables) {
  const auto found = runs_.find(TextOf(variables, "run"));
  const bool success = found != runs_.end();
  if (success) ConfirmFiles(found->second, variables.value("files", json::array()));
  return {200, {{"data", {{"markRunFilesUploaded", {{"success", success}}}}}}};
}

WandbServer::StorageAnswer WandbServer::Put(const StorageRequest& request) {
  const Object object = ObjectOf(request.target);
  const auto refuse = [&](const std::string& why) -> StorageAnswer {
    errors_.push_back(absl::StrCat("upload of ", request.target, ": ", why));
    return {403, why, ""};
  };
  if (!object.signed_url) return refuse("no signature in the query");
  if (request.headers.count("authorization") > 0) return refuse("credentials beside a signature");
  if (request.headers.count("transfer-encoding") > 0) return refuse("no Content-Length");
  const std::string md5 = Md5Base64(request.body);
  if (object.kind == "part") {  // has no upload headers of its own
    const auto given = request.headers.find("content-md5");
    if (given == request.headers.end() || given->second != md5) return refuse("no Content-MD5");
  } else if (request.headers.count(kUploadHeader) == 0) {
    return refuse("the upload headers are missing");
  }
  bool expected = false;
  if (object.kind != "run") {
    expected = artifacts_.Put(object.kind, object.owner, object.name, request.body);
  } else if (const auto run = runs_.find(object.owner); run != runs_.end()) {
    expected =
        run->second.awaited.erase(object.name) > 0 || run->second.files.count(object.name) > 0;
    if (expected) run->second.files[object.name] = request.body;
  }
  if (!expected) return refuse("nothing was to be uploaded here");
  std::string tag;
  absl::Base64Unescape(md5, &tag);
  return {200, "", absl::StrCat("\"", absl::BytesToHexString(tag), "\"")};
}

void WandbServer::LosePart(const std::string& target) {
  const Object object = ObjectOf(target);
  if (object.kind == "part") artifacts_.LosePart(object.owner, object.name);
}

WandbServer::StorageAnswer WandbServer::Get(const std::string& target) const {
  const Object object = ObjectOf(target);
  if (!object.signed_url) return {403, "", ""};
  const std::string* bytes = nullptr;
  if (object.kind != "run") {
    bytes = artifacts_.Get(object.kind, object.owner, object.name);
  } else if (const auto run = runs_.find(object.owner); run != runs_.end()) {
    const auto file = run->second.files.find(object.name);
    if (file != run->second.files.end()) bytes = &file->second;
  }
  return bytes == nullptr ? StorageAnswer{404, "", ""} : StorageAnswer{200, *bytes, ""};
}

void WandbServer::ConfirmFiles(Run& run, const json& names) {
  for (const json& name : names) {
    run.uploaded.insert(name.get<std::string>());
    if (run.files.count(name.get<std::string>()) > 0) continue;
    errors_.push_back(
        absl::StrCat(run.run_id, ": ", name.dump(), " is uploaded, but has no bytes"));
  }
}

void WandbServer::CheckEnd(const Run& run) {
  if (several_stores_) return;  // the others still have some
  for (const std::string& name : run.awaited) {
    errors_.push_back(absl::StrCat(run.run_id, ": complete before the upload of ", name));
  }
  for (const auto& [name, bytes] : run.files) {
    if (run.uploaded.count(name) > 0) continue;
    errors_.push_back(absl::StrCat(run.run_id, ": complete, but nobody confirmed ", name));
  }
  for (const WandbArtifacts::Artifact* artifact : artifacts_.LoggedBy(run.run_id)) {
    if (artifact->committed) continue;
    errors_.push_back(
        absl::StrCat(run.run_id, ": complete before the artifact ", artifact->collection));
  }
}

}  // namespace ranklog::testing
