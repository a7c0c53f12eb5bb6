#ifndef TRAINER_OPTIONS_H_
#define TRAINER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "absl/time/time.h"
#include "ranklog/settings.h"
#include "trainer/data/tokenizer.h"
#include "trainer/parallel/placement.h"

namespace ranklog::trainer {

// The parsed command line. Every number is in its valid range.
struct Options {
  // ---- Data and model ----
  std::string data = "builtin";  // see DataOptions
  Tokenizer tokenizer;           // of a text
  std::string cache_dir;         // of its tokens; empty: DefaultCacheDir()
  bool drop_last = false;        // see EpochSampler
  std::string model = "tiny";    // tiny, small, gpt2
  int64_t pad_vocabulary = 1;    // the model's vocabulary is rounded up to a multiple of this
  uint64_t seed = 1;             // of the initial weights and of the order of the samples

  // ---- Training ----
  int64_t steps = 300;                  // optimizer steps
  int64_t epochs = 0;                   // over 0: instead of `steps`, see MakePlan()
  int64_t batch_size = 8;               // sequences per rank and micro-batch
  int64_t grad_accum = 1;               // micro-batches per step
  int64_t seq_len = 128;                // tokens per sequence
  double lr = 0;                        // peak; ParseCommandLine() sets the model's default
  double min_lr = 0;                    // at the last step; default lr / 10
  std::optional<int64_t> warmup_steps;  // default: a tenth, 20 to 200, at most half of all steps
  double weight_decay = 0.1;
  double grad_clip = 1.0;  // of the gradient's L2 norm; 0: off

  // ---- Checkpoints: in save_dir/experiment_name ----
  // Steps; 0: never, not even after a stop signal; default: 500, or an epoch with `epochs`.
  std::optional<int64_t> save_every;
  bool log_checkpoints = false;  // as artifacts of the run
  int keep = 3;                  // the last ones
  bool resume = false;           // resume from the newest one, in its run
  std::string init_from;         // a new training starts from the weights of this checkpoint

  // ---- Ranks and devices ----
  int nproc_per_node = 1;  // over 1: start that many ranks of this program; 0: one for each GPU
  Comm comm = Comm::kAuto;
  bool bfloat16 = false;                              // see Autocast
  absl::Duration group_timeout = absl::Seconds(120);  // see GroupOptions

  // ---- The log ----
  std::string save_dir;  // with experiment_name: the run's id, see RunId()
  std::string experiment_name;
  std::optional<std::string> group;
  std::optional<std::string> project;
  std::optional<LogStrategy> log_strategy;
  std::string log_code;              // a directory of source files; empty: none
  int64_t log_every = 1;             // steps; 0: only val/loss
  int64_t histograms = 0;            // steps between histograms of the gradients; 0: never
  std::optional<int64_t> val_every;  // steps; 0: never; default: 50, or an epoch with `epochs`
};

// The options, or an exit code if the program must end now: 0 after --help or --version, 2 after
// wrong usage, 1 if this build lacks a requested feature.
std::variant<Options, int> ParseCommandLine(int argc, const char* const* argv);

}  // namespace ranklog::trainer

#endif  // TRAINER_OPTIONS_H_
