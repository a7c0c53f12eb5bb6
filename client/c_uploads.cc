// The functions of ranklog/c.h on artifacts and files of a run.

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/base/uncancelled.h"
#include "client/c_handles.h"
#include "client/content/code_files.h"
#include "client/run/run_state.h"
#include "client/values.h"
#include "ranklog/c.h"

namespace {

using ranklog::internal::CopyText;
using ranklog::internal::RunState;
using ranklog::internal::StateOf;
using ranklog::internal::Uncancelled;
using ranklog::internal::Upload;

const Upload& UploadOf(const ranklog_upload* upload) {
  return **reinterpret_cast<const std::shared_ptr<Upload>*>(upload);
}

// Null without memory.
template <typename Make>
ranklog_upload* NewUpload(ranklog_run* run, const Make& make) {
  if (run == nullptr) return nullptr;
  const Uncancelled uncancelled;
  try {
    return reinterpret_cast<ranklog_upload*>(new std::shared_ptr<Upload>(make(StateOf(run))));
  } catch (...) {
    StateOf(run)->RefuseItem("no memory");
    return nullptr;
  }
}

std::shared_ptr<Upload> LogArtifact(RunState* state, const ranklog_artifact& artifact,
                                    ranklog::internal::FindFiles find) {
  ranklog::v1::Item item;
  const absl::Status status = ranklog::internal::ToProto(artifact, item.mutable_artifact());
  if (!status.ok()) return state->RefuseUpload(std::string(status.message()));
  std::vector<std::string> paths;
  for (size_t i = 0; i < artifact.path_count; ++i) {
    paths.emplace_back(artifact.paths[i] == nullptr ? "" : artifact.paths[i]);
  }
  return state->StageArtifact(std::move(item), std::move(paths), std::move(find));
}

}  // namespace

ranklog_upload* ranklog_log_artifact(ranklog_run* run, const ranklog_artifact* artifact) noexcept {
  return NewUpload(run, [&](RunState* state) {
    ranklog_artifact given = RANKLOG_ARTIFACT_INIT;
    if (artifact != nullptr) std::memcpy(&given, artifact, std::min(artifact->size, sizeof given));
    return LogArtifact(state, given, ranklog::internal::FilesIn);
  });
}

ranklog_upload* ranklog_log_code(ranklog_run* run, const char* root, const char* name,
                                 const char* const* suffixes, size_t suffix_count) noexcept {
  return NewUpload(run, [&](RunState* state) {
    const std::string usual_name =
        ranklog::internal::CodeArtifactName(state->settings().project, state->settings().program);
    const char* const path = root == nullptr ? "." : root;
    ranklog_artifact code = RANKLOG_ARTIFACT_INIT;
    code.name = name == nullptr ? usual_name.c_str() : name;
    code.type = "code";
    code.paths = &path;
    code.path_count = 1;
    std::vector<std::string> ends;
    for (size_t i = 0; suffixes != nullptr && i < suffix_count; ++i) {
      if (suffixes[i] != nullptr) ends.emplace_back(suffixes[i]);
    }
    return LogArtifact(state, code, [ends = std::move(ends)](const std::string& directory) {
      return ranklog::internal::CodeIn(directory, ends);
    });
  });
}

ranklog_upload* ranklog_save(ranklog_run* run, const char* path, const char* name) noexcept {
  return ranklog_save_by_policy(run, path, name, RANKLOG_SAVE_NOW);
}

ranklog_upload* ranklog_save_by_policy(ranklog_run* run, const char* path, const char* name,
                                       int policy) noexcept {
  return NewUpload(run, [&](RunState* state) {
    const std::string from = path == nullptr ? "" : path;
    const std::string to = name == nullptr ? from.substr(from.rfind('/') + 1) : name;
    if (const std::string error = ranklog::internal::FileNameError(to); !error.empty()) {
      return state->RefuseUpload(error);
    }
    switch (policy) {
      case RANKLOG_SAVE_NOW:
        return state->StageRunFile(from, to);
      case RANKLOG_SAVE_END:
      case RANKLOG_SAVE_LIVE:
        return state->KeepSaving(from, to, /*live=*/policy == RANKLOG_SAVE_LIVE);
      default:
        return state->RefuseUpload("unknown save policy; use RANKLOG_SAVE_NOW, _END or _LIVE");
    }
  });
}

ranklog_upload* ranklog_use_artifact(ranklog_run* run, const char* name) noexcept {
  return NewUpload(run, [&](RunState* state) {
    ranklog::v1::Item item;
    const absl::Status status =
        ranklog::internal::UseToProto(name == nullptr ? "" : name, item.mutable_artifact());
    if (!status.ok()) return state->RefuseUpload(std::string(status.message()));
    return state->StageUse(std::move(item));
  });
}

int ranklog_upload_state(const ranklog_upload* upload) noexcept {
  return upload == nullptr ? RANKLOG_REFUSED : static_cast<int>(UploadOf(upload).state());
}

int ranklog_upload_wait(const ranklog_upload* upload, int64_t timeout_ms) noexcept {
  if (upload == nullptr) return RANKLOG_REFUSED;
  const Uncancelled uncancelled;
  constexpr int64_t kLongest = int64_t{365} * 24 * 3600 * 1000;
  const std::chrono::milliseconds timeout(std::clamp<int64_t>(timeout_ms, 0, kLongest));
  return static_cast<int>(UploadOf(upload).Wait(std::chrono::steady_clock::now() + timeout));
}

size_t ranklog_upload_error(const ranklog_upload* upload, char* buffer, size_t size) noexcept {
  try {
    return CopyText(upload == nullptr ? "no memory" : UploadOf(upload).error(), buffer, size);
  } catch (...) {
    return CopyText("no memory", buffer, size);
  }
}

void ranklog_upload_free(ranklog_upload* upload) noexcept {
  delete reinterpret_cast<std::shared_ptr<Upload>*>(upload);
}

static_assert(static_cast<int>(Upload::kStaging) == RANKLOG_STAGING);
static_assert(static_cast<int>(Upload::kStaged) == RANKLOG_STAGED);
static_assert(static_cast<int>(Upload::kRefused) == RANKLOG_REFUSED);
