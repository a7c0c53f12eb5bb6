#include "trainer/checkpoint/checkpoint_directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "trainer/base/durable_file.h"

namespace ranklog::trainer {
namespace {

constexpr char kPrefix[] = "checkpoint-";
constexpr char kSuffix[] = ".safetensors";
constexpr size_t kAdvisedCheckpoints = 5;  // the newest ones
// A training that was killed holds its lock until the kernel has freed its memory.
constexpr absl::Duration kLockPatience = absl::Seconds(10);
constexpr absl::Duration kLockSilence = absl::Seconds(1);  // after that, a report

// The step in a file's name; nullopt: the file is not a checkpoint.
std::optional<int64_t> StepOf(const std::string& name) {
  absl::string_view digits = name;
  int64_t step = 0;
  if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::ConsumeSuffix(&digits, kSuffix) ||
      digits.size() < 8 || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &step)) {
    return std::nullopt;
  }
  return step;
}

std::string FileOf(const std::string& directory, int64_t step) {
  return absl::StrFormat("%s/%s%08d%s", directory, kPrefix, step, kSuffix);
}

// The steps of the checkpoints in `directory`, descending.
std::vector<int64_t> StepsIn(const std::string& directory) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    const std::optional<int64_t> step = StepOf(entry.path().filename());
    if (step) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end(), std::greater<>());
  return steps;
}

struct Saved {
  int64_t step;
  double train_loss;  // NaN: unknown
};

// The checkpoints in `directory` up to step `newest`, descending.
std::vector<Saved> SavedIn(const std::string& directory,
                           int64_t newest = std::numeric_limits<int64_t>::max()) {
  std::vector<Saved> saved;
  for (const int64_t step : StepsIn(directory)) {
    if (step <= newest) saved.push_back({step, ReadTrainLoss(FileOf(directory, step))});
  }
  return saved;
}

double Lowest(const std::vector<Saved>& saved) {
  double lowest = std::numeric_limits<double>::infinity();
  for (const Saved& one : saved) {
    if (one.train_loss < lowest) lowest = one.train_loss;
  }
  return lowest;
}

// Takes the lock. A file system without locks, such as some network file systems, is accepted
// without one.
bool Lock(LockFile& lock, const std::function<void()>& report) {
  const absl::Time begin = absl::Now();
  bool reported = false;
  while (absl::IsUnavailable(lock.TryTake())) {
    const absl::Duration waited = absl::Now() - begin;
    if (waited >= kLockPatience) return false;
    if (waited >= kLockSilence && !std::exchange(reported, true)) report();
    absl::SleepFor(absl::Milliseconds(50));
  }
  return true;
}

}  // namespace

double LossRise(int64_t tokens) {
  constexpr double kEnough = 256;
  return kLossRise * std::sqrt(std::max(1.0, kEnough / static_cast<double>(tokens)));
}

absl::StatusOr<CheckpointDirectory> CheckpointDirectory::Open(
    std::string path, int keep, const std::function<void(const std::string&)>& report,
    double loss_rise) {
  if (absl::Status status = CreateDirectories(path); !status.ok()) return status;
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write checkpoints to ", path));
  }
  absl::StatusOr<LockFile> lock = LockFile::Open(path);
  if (!lock.ok()) return lock.status();
  CheckpointDirectory directory(std::move(path), keep, loss_rise, *std::move(lock));
  const auto waits = [&] {
    if (report) {
      report(absl::StrCat("waiting up to ", absl::FormatDuration(kLockPatience),
                          " for another training that saves its checkpoints in ", directory.path_));
    }
  };
  if (!Lock(directory.lock_, waits)) {
    return absl::UnavailableError(
        absl::StrCat("cannot save checkpoints in ", directory.path_,
                     ": another training saves there; wait for its end, or give another "
                     "--experiment-name"));
  }
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path_, error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, absl::StrCat(kSuffix, ".tmp"))) {
      std::filesystem::remove(entry.path(), error);
    }
  }
  return directory;
}

CheckpointDirectory::CheckpointDirectory(std::string path, int keep, double loss_rise,
                                         LockFile lock)
    : path_(std::move(path)), keep_(keep), loss_rise_(loss_rise), lock_(std::move(lock)) {}

std::string CheckpointDirectory::PathOf(int64_t step) const { return FileOf(path_, step); }

std::string CheckpointDirectory::EarlierRun(int number) const {
  return absl::StrCat(path_, "/earlier-", number);
}

int64_t CheckpointDirectory::RunsWithCheckpoints() const {
  std::error_code error;
  int aside = 0;
  while (std::filesystem::exists(EarlierRun(aside + 1), error)) ++aside;
  return aside + (Steps().empty() ? 0 : 1);
}

std::vector<int64_t> CheckpointDirectory::Steps() const { return StepsIn(path_); }

absl::StatusOr<std::optional<CheckpointDirectory::Found>> CheckpointDirectory::Latest(
    const std::function<void(const std::string&)>& warn) const {
  const std::vector<int64_t> steps = Steps();
  for (const int64_t step : steps) {
    const std::string path = PathOf(step);
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
    if (checkpoint.ok() && checkpoint->step != step) {
      checkpoint = absl::InvalidArgumentError(
          absl::StrCat("cannot read ", path, ": it is of step ", checkpoint->step));
    }
    if (checkpoint.ok()) return Found{path, *std::move(checkpoint)};
    if (!absl::IsDataLoss(checkpoint.status()) && !absl::IsInvalidArgument(checkpoint.status())) {
      return checkpoint.status();
    }
    warn(absl::StrCat("skipping a checkpoint: ", std::string(checkpoint.status().message()),
                      "; restore or remove it"));
  }
  if (steps.empty()) return std::nullopt;
  return absl::DataLossError(absl::StrCat(
      "cannot resume from ", path_,
      ": none of its checkpoints can be read; restore one, or start a new run without --resume, "
      "which keeps these files"));
}

absl::StatusOr<std::string> CheckpointDirectory::SetAside() {
  std::vector<int64_t> steps = Steps();
  if (steps.empty()) return "";
  // The newest last: until it moves, --resume still finds it.
  std::reverse(steps.begin(), steps.end());
  std::error_code error;
  int number = 1;
  while (std::filesystem::exists(EarlierRun(number), error)) ++number;
  const std::string target = EarlierRun(number);
  absl::Status status = CreateDirectories(target);
  for (const int64_t step : steps) {
    const std::filesystem::path file = PathOf(step);
    if (!status.ok() || error) break;
    std::filesystem::rename(file, target + "/" + file.filename().string(), error);
  }
  if (error) {
    return absl::ErrnoToStatus(
        error.value(), absl::StrCat("cannot move the earlier run's checkpoints to ", target));
  }
  // In this order, a power cut loses no name.
  if (status.ok()) status = SyncDirectory(target);
  if (status.ok()) status = SyncDirectory(path_);
  if (!status.ok()) return status;
  return target;
}

absl::Status CheckpointDirectory::Save(const Checkpoint& checkpoint) {
  absl::Status status = WriteCheckpoint(PathOf(checkpoint.step), checkpoint);
  if (!status.ok()) return status;
  RemoveOld(checkpoint.step);
  return absl::OkStatus();
}

void CheckpointDirectory::RemoveOld(int64_t newest) {
  const std::vector<Saved> saved = SavedIn(path_, newest);
  const double highest_good = Lowest(saved) + loss_rise_;
  for (size_t i = keep_; i < saved.size(); ++i) {
    if (saved.front().train_loss > highest_good && saved[i].train_loss <= highest_good) continue;
    std::error_code ignored;  // one too many is harmless, and the next Save() tries again
    std::filesystem::remove(PathOf(saved[i].step), ignored);
  }
}

double CheckpointDirectory::LowestLoss() const { return Lowest(SavedIn(path_)); }

std::string AdviceAfterKill(const std::string& directory) {
  const std::vector<int64_t> steps = StepsIn(directory);
  if (steps.empty()) return absl::StrCat("no checkpoint exists in ", directory);
  return absl::StrCat("the newest checkpoint is ", FileOf(directory, steps.front()),
                      "; to continue, run the same command with --resume");
}

std::string AdviceAfterDivergence(const std::string& directory, double loss_rise) {
  std::vector<Saved> saved = SavedIn(directory);
  if (saved.empty()) return "no checkpoint exists: start again with a lower --lr";
  const double highest_good = Lowest(saved) + loss_rise;
  std::erase_if(saved, [&](const Saved& one) { return one.train_loss > highest_good; });
  if (saved.size() > kAdvisedCheckpoints) saved.resize(kAdvisedCheckpoints);
  std::reverse(saved.begin(), saved.end());
  const auto with_loss = [](std::string* out, const Saved& one) {
    absl::StrAppend(out, one.step);
    if (!std::isnan(one.train_loss)) absl::StrAppendFormat(out, " (loss %.3g)", one.train_loss);
  };
  return absl::StrCat(
      "start a new experiment, from a checkpoint of before the loss rose: --init-from ",
      FileOf(directory, saved.front().step),
      " --experiment-name NEW --lr LOWER, without --resume. ", directory,
      " has the checkpoints of steps ", absl::StrJoin(saved, ", ", with_loss));
}

}  // namespace ranklog::trainer
