// Artifacts and files: what of a call is checked at once, and how its files are staged.
//
// The stager's thread copies the files, and then writes the item that names the copies. So the promise
// of the call, that its files arrive, holds once its upload is staged.

#include <algorithm>
#include <chrono>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/base/text/keys.h"
#include "client/base/text/short_name.h"
#include "client/content/staged_files.h"
#include "client/run/run_state.h"

namespace ranklog::internal {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPlacePause{20};
constexpr std::chrono::milliseconds kCancelPatience{500};

v1::Value Text(std::string text) {
  v1::Value value;
  value.set_text(std::move(text));
  return value;
}

void Add(v1::Object* object, const char* key, v1::Value value) {
  v1::Field* const field = object->add_fields();
  field->set_key(key);
  *field->mutable_value() = std::move(value);
}

void AddFile(const StagedFile& file, v1::Object* entry) {
  Add(entry, "file", Text(file.name));
  v1::Value bytes;
  bytes.set_integer(static_cast<int64_t>(file.bytes));
  Add(entry, "bytes", std::move(bytes));
}

}  // namespace

std::shared_ptr<Upload> RunState::StageArtifact(v1::Item item, std::vector<std::string> paths,
                                                FindFiles find) {
  v1::Object* const artifact = item.mutable_artifact();
  Add(artifact, "id", Text(absl::StrCat(RandomName(), RandomName(), RandomName())));
  // The program may change its directory before they are copied.
  for (std::string& path : paths) path = Absolute(path);
  v1::Value step;
  step.set_integer(std::max<int64_t>(open_step(), 0));
  Add(artifact, "step", std::move(step));
  return Stage([this, item = std::move(item), paths = std::move(paths), find = std::move(find)](
                   const v1::ContentPlace& place,
                   std::vector<std::string>* staged) mutable -> absl::StatusOr<v1::Item> {
    v1::Value* entries = nullptr;
    for (v1::Field& field : *item.mutable_artifact()->mutable_fields()) {
      if (field.key() == "entries") entries = field.mutable_value();
    }
    std::set<std::string> names;
    for (const v1::Value& reference : entries->list().values()) {
      names.insert(reference.object().fields(0).value().text());  // its path
    }
    for (const std::string& path : paths) {
      absl::StatusOr<std::vector<FileToStage>> files = find(path);
      if (!files.ok()) return files.status();
      for (const FileToStage& from : *files) {
        // The daemon could not read an item with another text.
        if (!IsUtf8(from.name)) return absl::InvalidArgumentError("a file's name is not UTF-8");
        if (!names.insert(from.name).second) {
          return absl::InvalidArgumentError(absl::StrCat("two of its files are named ", from.name));
        }
        absl::StatusOr<StagedFile> file = StageFile(place, from.path, Advance());
        if (!file.ok()) return file.status();
        staged->push_back(file->name);
        v1::Object* const entry = entries->mutable_list()->add_values()->mutable_object();
        Add(entry, "path", Text(from.name));
        AddFile(*file, entry);
      }
    }
    return item;
  });
}

std::shared_ptr<Upload> RunState::StageUse(v1::Item item) {
  return Stage([item = std::move(item)](const v1::ContentPlace&,
                                        std::vector<std::string>*) -> absl::StatusOr<v1::Item> {
    return item;
  });
}

RunState::StageFn RunState::RunFileStage(std::string path, std::string name) {
  return [this, path = std::move(path), name = std::move(name)](
             const v1::ContentPlace& place,
             std::vector<std::string>* staged) -> absl::StatusOr<v1::Item> {
    absl::StatusOr<StagedFile> file = StageFile(place, path, Advance());
    if (!file.ok()) return file.status();
    staged->push_back(file->name);
    return RunFileItem(name, *file);
  };
}

std::shared_ptr<Upload> RunState::StageRunFile(const std::string& path, std::string name) {
  return Stage(RunFileStage(Absolute(path), std::move(name)));
}

v1::Item RunState::RunFileItem(const std::string& path, const StagedFile& file) {
  v1::Item item;
  Add(item.mutable_run_file(), "path", Text(path));
  AddFile(file, item.mutable_run_file());
  return item;
}

std::function<bool(uint64_t)> RunState::Advance() {
  return [this](uint64_t) {
    staging_advanced_.store(Clock::now().time_since_epoch(), std::memory_order_relaxed);
    return !staging_cancelled_.load(std::memory_order_relaxed);
  };
}

std::shared_ptr<Upload> RunState::RefuseUpload(std::string why) {
  auto upload = std::make_shared<Upload>();
  RefuseItem(why);
  upload->Refuse(std::move(why));
  return upload;
}

std::shared_ptr<Upload> RunState::Stage(StageFn stage) {
  auto upload = std::make_shared<Upload>();
  if (settings_.disabled) {
    upload->Staged();
    return upload;
  }
  if (!usable_) return RefuseUpload("the run has no memory");
  if (closed_.load(std::memory_order_relaxed)) return RefuseUpload("the run has finished");
  staging_.fetch_add(1);
  Advance()(0);
  const bool added =
      Stager::Get()->Add([run = shared_from_this(), upload, stage = std::move(stage)] {
        run->RunStage(stage, upload.get());
      });
  if (added) return upload;
  StagingEnds();
  return RefuseUpload("no thread can be started for its copies");
}

void RunState::RunStage(const StageFn& stage, Upload* upload) noexcept {
  bool counted = false;
  const absl::Status status = TryStage(stage, &counted);
  if (status.ok()) {
    upload->Staged();
  } else {
    RefuseStaged(status, counted, upload);
  }
  StagingEnds();
}

void RunState::RefuseStaged(const absl::Status& status, bool counted, Upload* upload) noexcept {
  std::string why = "no memory";
  try {
    why = std::string(status.message());
    if (!counted && !staging_abandoned_.load()) RefuseItem(why);
  } catch (...) {  // no memory
    RefuseItem("no memory");
  }
  if (upload->state() == Upload::kStaging) upload->Refuse(std::move(why));
}

absl::Status RunState::TryStage(const StageFn& stage, bool* counted) noexcept {
  absl::Status status = absl::ResourceExhaustedError("no memory");
  absl::StatusOr<v1::ContentPlace> place;
  std::vector<std::string> staged;
  try {
    place = AwaitContentPlace(Clock::time_point::max());
    if (!place.ok()) return place.status();
    absl::StatusOr<v1::Item> item = stage(*place, &staged);
    status = item.status();
    if (status.ok() && staging_abandoned_.load()) {
      status = absl::CancelledError("the run ended before the copy did");
    }
    if (status.ok()) {
      if (AddItem(*item)) return absl::OkStatus();
      *counted = true;
      status = absl::AbortedError(GetStats().last_error);
    }
  } catch (...) {  // no memory
  }
  for (const std::string& name : staged) RemoveStagedFile(*place, name);
  return status;
}

void RunState::StagingEnds() {
  staging_.fetch_sub(1);
  staging_ended_.NotifyAll();
}

// A daemon that starts may take some seconds.
absl::StatusOr<v1::ContentPlace> RunState::AwaitContentPlace(Clock::time_point deadline) {
  while (true) {
    {
      MutexLock lock(StateMutex());
      if (!content_place_.dir().empty()) return content_place_;
      if (has_hello_) {
        return absl::FailedPreconditionError(
            "the daemon has no directory for files; update ranklogd");
      }
    }
    if (staging_cancelled_.load(std::memory_order_relaxed) || Clock::now() >= deadline) {
      return absl::UnavailableError(
          "no daemon has answered, so there is no place for its files; start ranklogd");
    }
    const uint32_t seen = staging_ended_.Count();
    staging_ended_.WaitUntil(seen, Clock::now() + kPlacePause);
  }
}

void RunState::AwaitStaging(std::chrono::milliseconds patience, const Stops& stops) {
  while (staging_.load() > 0) {
    const uint32_t seen = staging_ended_.Count();
    if (staging_.load() == 0) return;
    const Clock::time_point advanced(staging_advanced_.load(std::memory_order_relaxed));
    const bool stopped = stops && stops();
    if (stopped || Clock::now() >= advanced + patience) {
      staging_cancelled_.store(true);
      // A job that copies notices that at its next piece.
      const Clock::time_point end = Clock::now() + kCancelPatience;
      while (staging_.load() > 0 && Clock::now() < end) {
        staging_ended_.WaitUntil(staging_ended_.Count(), Clock::now() + kPlacePause);
      }
      // The job that stands still, and those behind it.
      staging_abandoned_.store(staging_.load() > 0);
      for (int left = staging_.load(); left > 0; --left) {
        RefuseItem(stopped ? "an upload was given up, because the program was interrupted"
                           : absl::StrCat("an upload was given up, because no copy advanced for ",
                                          patience.count(),
                                          " ms; if the disk is slow, raise finish_timeout"));
      }
      return;
    }
    staging_ended_.WaitUntil(seen, std::min(advanced + patience, Clock::now() + kPlacePause));
  }
}

}  // namespace ranklog::internal
