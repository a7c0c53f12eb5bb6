#ifndef TRAINER_CHECKPOINT_RUN_FILE_H_
#define TRAINER_CHECKPOINT_RUN_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/checkpoint/checkpoint.h"

namespace ranklog::trainer {

// The file run.json in an experiment's directory: the run that the training logs to. It is written
// before the run's first row, so that a start can continue the run before a checkpoint exists.
// checkpoint.md describes it.
struct RunFile {
  std::string experiment = {};     // its directory: absolute, without "." and ".."
  std::string experiment_id = {};  // random, created with the directory; moves and copies keep it
  std::string run_id = {};         // as the daemon returned it; until then, the requested id
  std::string requested_id = {};   // the first requested id; older checkpoints may contain it
  // run_id certainly belongs to this training: a daemon returned it, or it has a random part.
  bool settled = false;
  int64_t number = 0;  // how many runs the experiment had, this one included
};

// The file of the experiment in `directory`.
//   kNotFound  it does not exist
//   kDataLoss  it is damaged
absl::StatusOr<RunFile> ReadRunFile(const std::string& directory);

// Errors: those of DurableFile. On OK the file survives a power cut.
absl::Status WriteRunFile(const std::string& directory, const RunFile& file);

// Inputs of ChooseRun().
struct RunInputs {
  std::string experiment = {};                // this one's directory, as in RunFile
  std::string first_id = {};                  // the id of its first run
  std::optional<RunFile> file = {};           // the directory's file
  const Checkpoint* resumed = nullptr;        // the checkpoint that the training resumes from
  bool continues_without_checkpoint = false;  // --resume, of a training that saves checkpoints
  int64_t earlier_runs = 0;                   // runs with checkpoints; used if there is no file
  bool requeued = false;                      // the daemon would continue a run with the same id
};

struct RunChoice {
  RunFile file;            // the new content of the experiment's file
  bool continues = false;  // in the run that the file names; else the run is new
  bool unsettled = false;  // new, because the run of the earlier steps may be another training's
  std::string copied_of;   // the directory that this one is a copy of; empty if it is not a copy
};

// The run of a start. A training continues in the run of its checkpoint, else in that of its file;
// so does a moved directory. While the original exists, a copy gets a new run, because two
// trainings would write to one. If the run is not settled, the id may be that of another training's
// run, so the training continues in a new run. Reads the original's file.
RunChoice ChooseRun(const RunInputs& inputs);

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_RUN_FILE_H_
