#ifndef TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
#define TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ranklog::trainer {

// The checkpoints of an experiment: files such as checkpoint-00000100.safetensors, by the steps that
// are done. Only rank 0 has one of these. It holds a lock on the directory, so that two trainings
// do not mix their checkpoints. The lock ends with the process.
//
// Not thread-safe. Errors name the file and the reason.
class CheckpointDirectory {
 public:
  // Makes `path` and its parents where they are absent, and removes what a killed training left half
  // written. Save() will keep the last `keep` checkpoints, at least 1. `say` receives a sentence if
  // another training holds the lock.
  //   kUnavailable  another training holds the lock, also after some seconds
  //   others        the directory cannot be made or written to, by errno
  static absl::StatusOr<CheckpointDirectory> Open(
      std::string path, int keep, const std::function<void(const std::string&)>& say = nullptr);
  CheckpointDirectory(CheckpointDirectory&& other) noexcept;
  CheckpointDirectory& operator=(CheckpointDirectory&&) = delete;
  ~CheckpointDirectory();

  // The newest checkpoint that can be read, and its file. One that is damaged or of another program
  // is passed over, and `warn` receives a sentence that names it. nullopt: there is none.
  //   kDataLoss            there are checkpoints, but none can be read
  //   kFailedPrecondition  a newer ranklog-train wrote the newest one. An older one would lose steps
  //   others               a file cannot be read, by errno
  struct Found {
    std::string path;
    Checkpoint checkpoint;
  };
  absl::StatusOr<std::optional<Found>> Latest(
      const std::function<void(const std::string&)>& warn) const;

  // How many runs have left checkpoints here: those that were set aside, and the last one.
  int64_t RunsWithCheckpoints() const;

  // Makes room for a new run: moves all checkpoints to a new directory `path`/earlier-N. Returns
  // that; "" if there were none.
  absl::StatusOr<std::string> SetAside();

  // On OK the checkpoint survives a power cut. Then removes the oldest ones. Those of later steps,
  // which could not be read when the training went on from an earlier one, count for nothing. They
  // are overwritten when their step comes.
  absl::Status Save(const Checkpoint& checkpoint);

  const std::string& path() const { return path_; }
  // Where the checkpoint of `step` is.
  std::string PathOf(int64_t step) const;

 private:
  CheckpointDirectory(std::string path, int keep, int lock);
  std::string EarlierRun(int number) const;
  // Descending.
  std::vector<int64_t> Steps() const;

  const std::string path_;
  const int keep_;
  int lock_;  // a descriptor; -1: moved from
};

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_CHECKPOINT_DIRECTORY_H_
