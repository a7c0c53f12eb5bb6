#ifndef TRAINER_RUN_LOG_H_
#define TRAINER_RUN_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"
#include "trainer/options.h"
#include "trainer/plan.h"

namespace ranklog::trainer {

// The path that identifies an experiment: "{save_dir}/{experiment_name}", absolute, without "." and
// "..".
std::string ExperimentPath(const std::string& save_dir, const std::string& experiment_name);

// The id of an experiment's first run: the SHA-1 of its path in lower-case hex.
std::string RunId(const std::string& save_dir, const std::string& experiment_name);

// The job id of `run`: the run id under main, the common prefix of the run ids under node and all.
// May change until a daemon has answered.
std::string JobRunId(const Run& run);

// Overrides settings from the environment with those of the command line.
void ApplyOptions(const Options& options, Settings& settings);

// Why a training with these settings does not start, with the names of the flags that set wrong
// values; empty if the settings are valid. Call it after ApplyOptions().
std::string SettingsError(const Options& options, const Settings& settings);

// Values of the run's config that are not options.
struct RunFacts {
  std::string data_source = {};
  int64_t vocabulary = 0;       // of the model, with padding
  int64_t parameters = 0;       // of the model
  int64_t training_tokens = 0;  // of the text, without the validation tokens
  int world_size = 1;
  int nproc_per_node = 1;
  bool nccl = false;  // else Gloo
};

// The run's config: every option, and the values that follow from them.
std::vector<Value::Field> RunConfig(const Options& options, const Plan& plan,
                                    const RunFacts& facts);

// Logs the rows of this rank. Every row has global_step, the x axis of the charts, and epoch.
class RunLog {
 public:
  struct TrainRow {
    double loss = 0;  // of this rank's batch, nats per token
    double lr = 0;
    double tokens_per_second = 0;  // over all ranks
    double grad_norm = 0;          // after averaging over the ranks, before clipping
  };

  explicit RunLog(Run& run);
  void Train(int64_t step, double epoch, const TrainRow& row);
  void Validation(int64_t step, double epoch, double loss);
  // See GradientHistograms(). An empty list logs nothing.
  void Gradients(int64_t step, double epoch, const std::vector<Value::Field>& histograms);

  // Waits until the rows of this rank are on the disk, at most a few seconds. Call it before the
  // checkpoint of `step` is written: steps before a checkpoint are never logged again, so a power
  // cut would leave a gap. Does not wait if the previous call timed out and no daemon is connected.
  // Prints a warning when it times out, unless the previous call timed out too.
  void AwaitDisk(int64_t step);

  // Logs the file of a checkpoint as an artifact, unless `file` is empty or was logged. The artifact's
  // name is that of the experiment.
  void Checkpoint(const std::string& file, int64_t step, const Options& options);
  // Waits until the file of the last Checkpoint() may be removed, at most a minute; usually it may.
  void AwaitCheckpoint();

 private:
  Run& run_;
  std::string checkpoint_;  // the file of the last one
  Upload upload_;           // of it
  RowHandle train_;
  bool defined_gradients_ = false;
  bool behind_ = false;  // the previous AwaitDisk() timed out
};

}  // namespace ranklog::trainer

#endif  // TRAINER_RUN_LOG_H_
