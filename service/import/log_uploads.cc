// The part of LogImport that stages files and artifacts. Their content is not in the log, but beside
// it, or where the artifact's entries say.

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/text/printable.h"
#include "service/import/log_import.h"
#include "service/import/manifest_file.h"
#include "service/import/records/json_values.h"
#include "service/import/staging.h"

namespace ranklog::imports {
namespace {

using model::Item;
using model::Json;
using wandb_internal::ArtifactManifestEntry;
using wandb_internal::FilesItem;

constexpr char kMetadata[] = "wandb-metadata.json";

// The delivery makes these itself.
constexpr std::array<absl::string_view, 4> kGenerated = {"config.yaml", "output.log", kMetadata,
                                                         "wandb-summary.json"};

constexpr size_t kMetadataBytes = 1 << 20;

// Empty if it is not there or not an object.
Json ReadMetadata(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMetadataBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  Json metadata = ToJson(text);
  return metadata.is_object() ? metadata : Json::object();
}

// 0: it cannot be read.
int64_t StampOf(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return 0;
  return info.st_mtim.tv_sec * 1000000000 + info.st_mtim.tv_nsec;
}

bool IsUpload(const std::string& path) {
  const bool generated = std::find(kGenerated.begin(), kGenerated.end(), path) != kGenerated.end();
  return !generated && StaysBelow(path);
}

Json Texts(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  Json list = Json::array();
  for (const std::string& text : texts) list.push_back(text);
  return list;
}

}  // namespace

std::string LogImport::NextId() {
  return absl::StrCat(absl::Hex(log_.id, absl::kZeroPad16), "-", begin_, "-", staged_++);
}

void LogImport::NoteFiles(const wandb_internal::FilesRecord& files) {
  for (const FilesItem& item : files.files()) {
    // Older versions of the SDK write this file, and no `environment` record.
    if (item.path() == kMetadata && metadata_.empty()) {
      metadata_ = ReadMetadata(absl::StrCat(log_.dir, "/files/", kMetadata));
      metadata_changed_ = !metadata_.empty();
    }
    if (!IsUpload(item.path())) continue;
    files_[item.path()].at_end |= item.policy() != FilesItem::NOW;
  }
}

void LogImport::TakeFiles(const wandb_internal::FilesRecord& files) {
  for (const FilesItem& item : files.files()) {
    const std::string& path = item.path();
    if (IsUpload(path)) {
      AddFile(path, &files_[path]);
    } else if (!StaysBelow(path)) {
      findings_.absent.push_back(absl::StrCat("file ", Printable(path), ": outside of files/"));
    }
  }
}

void LogImport::AddFile(const std::string& path, RunFile* file) {
  const std::string source = absl::StrCat(log_.dir, "/files/", path);
  const int64_t stamp = StampOf(source);
  if (stamp != 0 && stamp == file->stamp) return;
  const absl::StatusOr<Staged> staged = StageFile(options_.state_dir, source, NextId());
  if (!staged.ok()) {
    // Its program may not have written it yet.
    if (file->at_end && !findings_.has_exit) return;
    findings_.absent.push_back(
        absl::StrCat("file ", Printable(path), ": ", staged.status().message()));
    return;
  }
  file->stamp = stamp;
  Json object = Json::object();
  object["path"] = path;
  object["file"] = staged->name;
  object["bytes"] = staged->bytes;
  AddSingle(Item::Kind::kRunFile, std::move(object));
}

void LogImport::AddFilesAtEnd() {
  for (auto& [path, file] : files_) {
    if (file.at_end) AddFile(path, &file);
  }
}

void LogImport::TakeArtifact(const wandb_internal::ArtifactRecord& artifact) {
  const auto leave_out = [&](absl::string_view why) {
    findings_.absent.push_back(absl::StrCat("artifact ", Printable(artifact.name()), ": ", why));
  };
  wandb_internal::ArtifactManifest manifest = artifact.manifest();
  if (const absl::Status read = ReadManifestFile(&manifest); !read.ok()) {
    return leave_out(read.message());
  }
  if (!artifact.distributed_id().empty()) return leave_out("made by several writers");
  Json object = Json::object();
  object["id"] = artifact.client_id();
  object["name"] = artifact.name();
  object["type"] = artifact.type();
  if (artifact.incremental_beta1()) object["incremental"] = true;
  if (!artifact.description().empty()) object["description"] = artifact.description();
  object["aliases"] = Texts(artifact.aliases());
  object["tags"] = Texts(artifact.tags());
  const Json metadata = ToJson(artifact.metadata());
  if (metadata.is_object()) object["metadata"] = metadata;
  Json entries = Json::array();
  for (const ArtifactManifestEntry& entry : manifest.contents()) {
    Json to = Json::object();
    to["path"] = entry.path();
    if (!entry.ref().empty()) {
      to["ref"] = entry.ref();
    } else {
      const absl::StatusOr<Staged> staged =
          StageFile(options_.state_dir, entry.local_path(), NextId());
      if (!staged.ok()) return leave_out(staged.status().message());
      to["file"] = staged->name;
      to["bytes"] = staged->bytes;
    }
    entries.push_back(std::move(to));
  }
  object["entries"] = std::move(entries);
  AddSingle(Item::Kind::kArtifact, std::move(object));
}

}  // namespace ranklog::imports
