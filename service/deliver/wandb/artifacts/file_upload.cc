#include "service/deliver/wandb/artifacts/file_upload.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_members.h"

namespace ranklog::deliver::wandb {

using model::Json;

// S3 takes 10,000 parts at most.
uint64_t PartBytes(uint64_t bytes, const ContentUpload::Place& place) {
  constexpr uint64_t kMostParts = 10000, kPage = 4096;
  if (bytes < place.multipart_bytes) return 0;
  const uint64_t least = (bytes + kMostParts - 1) / kMostParts;
  return std::max(place.part_bytes, (least + kPage - 1) / kPage * kPage);
}

HttpRequest FileUpload::NextPut(const std::string& staged) const {
  const ArtifactEntry& file = entry->second;
  HttpRequest request;
  request.file = FileRange{absl::StrCat(staged, "/", file.staged), 0, file.bytes};
  if (part_urls.empty()) {
    request.url = url;
    request.headers = headers;
    return request;
  }
  const size_t part = tags.size();
  request.url = part_urls[part];
  request.file->offset = part * file.part_bytes;
  request.file->bytes = file.BytesOfPart(part);
  request.headers = {{"Content-Md5", absl::Base64Escape(file.parts[part])}};
  for (const auto& [name, value] : headers) {
    if (absl::EqualsIgnoreCase(name, "Content-Type")) request.headers.emplace_back(name, value);
  }
  return request;
}

Json FileUpload::PartsProgress() const {
  // A cursor is stored often, so it has the addresses of that many parts at most: some 700 bytes each.
  constexpr size_t kMostKeptParts = 1000;
  if (tags.empty() || part_urls.size() > kMostKeptParts) return nullptr;
  Json pairs = Json::array();
  for (const auto& [name, value] : headers) pairs.push_back({name, value});
  return {{"path", entry->first}, {"storage", storage_path},
          {"id", upload_id},      {"urls", part_urls},
          {"tags", tags},         {"headers", std::move(pairs)}};
}

uint64_t FileUpload::ContinueParts(const Json& parts) {
  const auto texts = [&parts](const char* key) {
    std::vector<std::string> values;
    for (const Json& value : MemberOf(parts, key)) {
      if (value.is_string()) values.push_back(value.get<std::string>());
    }
    return values;
  };
  std::vector<std::string> urls = texts("urls");
  std::vector<std::string> sent = texts("tags");
  if (TextOf(parts, "path") != entry->first || urls.size() != entry->second.parts.size() ||
      sent.size() > urls.size()) {
    return 0;
  }
  storage_path = TextOf(parts, "storage");
  upload_id = TextOf(parts, "id");
  part_urls = std::move(urls);
  tags = std::move(sent);
  headers.clear();
  for (const Json& header : MemberOf(parts, "headers")) {
    headers.emplace_back(header.at(0).get<std::string>(), header.at(1).get<std::string>());
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < tags.size(); ++i) bytes += entry->second.BytesOfPart(i);
  return bytes;
}

}  // namespace ranklog::deliver::wandb
