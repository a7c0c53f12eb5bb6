#ifndef TRAINER_RUN_LOG_H_
#define TRAINER_RUN_LOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"
#include "trainer/options.h"
#include "trainer/plan.h"

namespace ranklog::trainer {

// The id of an experiment's run, so that a second start of it goes on with the first one's: the
// "{save_dir}/{experiment_name}" as an absolute path, without "." and "..".
std::string ExperimentPath(const std::string& save_dir, const std::string& experiment_name);

// The id of an experiment's first run: the SHA-1 of its path in lower-case hex.
std::string RunId(const std::string& save_dir, const std::string& experiment_name);

// The id of the job that logs to `run`: that of its run, or what the ids of its runs begin with. Known
// for certain once a daemon has answered.
std::string JobRunId(const Run& run);

// Puts what the command line says over what the environment said.
void ApplyOptions(const Options& options, Settings& settings);

// What the run's config has beside the options.
struct RunFacts {
  std::string data_source = {};
  int64_t vocabulary = 0;       // of the model, with padding
  int64_t parameters = 0;       // of the model
  int64_t training_tokens = 0;  // of the text, without what is held out
  int world_size = 1;
  bool nccl = false;  // else Gloo
};

// The run's config: every option, and what they led to.
std::vector<Value::Field> RunConfig(const Options& options, const Plan& plan,
                                    const RunFacts& facts);

// What this rank logs. Every row has global_step, the x axis of the charts, and epoch.
class RunLog {
 public:
  struct TrainRow {
    double loss = 0;  // of this rank's batch, nats per token
    double lr = 0;
    double tokens_per_second = 0;  // over all ranks
    double grad_norm = 0;          // before clipping; after averaging over ranks
  };

  explicit RunLog(Run& run);
  void Train(int64_t step, double epoch, const TrainRow& row);
  void Validation(int64_t step, double epoch, double loss);

  // Waits until the rows of this rank are on the disk; call it before the checkpoint of `step` is. A
  // power cut would leave a hole in the curve otherwise, since no step before a checkpoint is logged
  // again. Bounded: after some seconds, or at once where there was no daemon the last time, it says
  // that the rows are not there, and returns.
  void AwaitDisk(int64_t step);

 private:
  Run& run_;
  RowHandle train_;
  bool behind_ = false;  // AwaitDisk() waited in vain the last time
};

}  // namespace ranklog::trainer

#endif  // TRAINER_RUN_LOG_H_
