#include "trainer/options.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "trainer/base/usage_error.h"
#include "trainer/data/data.h"

namespace ranklog::trainer {
namespace {

constexpr const char* kAbout =
    R"(Trains a small GPT on text with any number of ranks, and logs with Ranklog.)";

constexpr const char* kExamples = R"(
Examples:
  ranklog-train                                           one rank, the text of Debian's package jargon-text
  ranklog-train --nproc-per-node 2 --steps 500            two ranks of this machine, DDP over Gloo
  ranklog-train --data book.txt --model small --lr 5e-4   your own text, byte by byte
  ranklog-train --data book.txt.gz --tokenizer bpe:4096   its SentencePiece tokens, made once and cached
  ranklog-train --data openwebtext --model gpt2 --seq-len 1024
                                                          tokens of nanoGPT or llm.c: train.bin and val.bin
  ranklog-train --save-dir out --experiment-name a        the run's id follows from both; checkpoints go to out/a
  ranklog-train --save-dir out --experiment-name a --resume
                                                          resumes from the newest checkpoint, in the same run
  torchrun --standalone --nproc_per_node 2 --no_python ranklog-train --log-strategy all
                                                          Debian 12's torchrun also needs --redirects 1 --tee 1
  srun --ntasks 4 ranklog-train                           set MASTER_ADDR and MASTER_PORT, as for any PyTorch job
  mpirun -np 4 ranklog-train                              the same

The log goes to ranklogd; `ranklog show latest` draws it. RANKLOG_* and WANDB_* variables apply; flags take precedence.
RANKLOG_RESUME is ignored: use --resume. With --save-dir, RANKLOG_RUN_ID is ignored.
SIGTERM and SIGUSR1 stop it after the current step, with a checkpoint if there is a --save-dir;
a second signal, at least 2 s later, ends it at once. "Stop run" on the run's page at W&B stops it in the same way.
Exit code: 0 success, or a stop on the page, 1 failure, 2 wrong usage, 75 stopped by a signal: start it again with --resume.
A stop by a signal that saves nothing (no --save-dir, or --save-every 0) has exit code 1.)";

double DefaultLearningRate(const std::string& model) {
  if (model == "tiny") return 6e-3;
  return model == "small" ? 1e-3 : 6e-4;
}

// Flags that are parsed to a text, or may be unset, before they become an option.
struct Words {
  std::string dtype = "float32";
  std::string comm = "auto";
  std::string nproc_per_node = "1";
  int64_t group_timeout = 120;  // seconds
  std::string tokenizer = "bytes";
  std::string group, project, log_strategy;
};

CLI::Range AtLeast(int64_t least) { return CLI::Range(least, int64_t{1} << 40); }

// Adds a check before the existing ones, whose messages are less clear.
void CheckFirst(CLI::Option& option, std::string (*error)(const std::string&)) {
  option.transform(CLI::Validator([error](std::string& text) { return error(text); }, ""));
}

// A number from 0 to `most`. CLI::Range alone accepts NaN.
CLI::Option* AddRate(CLI::App& app, const char* name, double& value, double most,
                     const char* about) {
  CLI::Option* const option = app.add_option(name, value, about)->check(CLI::Range(0.0, most));
  CheckFirst(*option, [](const std::string& text) {
    double number = 0;
    const bool valid = absl::SimpleAtod(text, &number) && !std::isnan(number);
    return valid ? std::string() : absl::StrCat(text, " is not a number");
  });
  return option;
}

// Why the name is not valid below --save-dir; empty if it is valid.
std::string ExperimentNameError(const std::string& name) {
  for (absl::string_view part : absl::StrSplit(name, '/')) {
    if (part.empty() || part == "." || part == "..") return "is not a path below --save-dir";
    int number = 0;
    if (part == "run.json" ||
        (absl::ConsumePrefix(&part, "earlier-") && absl::SimpleAtoi(part, &number))) {
      return "has a part that names files of an experiment, run.json or earlier-N";
    }
  }
  return "";
}

// CLI11 would read 0x5 as 5, and 010 as 8.
std::string DecimalError(const std::string& text) {
  absl::string_view digits = text;
  absl::ConsumePrefix(&digits, "-");
  const bool leading_zero = digits.size() > 1 && digits[0] == '0';
  if (!digits.empty() && !leading_zero && absl::c_all_of(digits, absl::ascii_isdigit)) return "";
  return absl::StrCat(text, " is not a whole decimal number");
}

// Adds the check to each option that is a whole number.
void CheckDecimals(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    const std::string type = option->get_type_name();
    if (absl::StartsWith(type, "INT") || absl::StartsWith(type, "UINT"))
      CheckFirst(*option, DecimalError);
  }
}

void AddModelAndData(CLI::App& app, Options& o, Words& words) {
  app.add_option(
         "--data", o.data,
         "A text (plain or gzipped), tokens (FILE.bin, or a directory with train.bin), or builtin")
      ->capture_default_str();
  app.add_option(
         "--tokenizer", words.tokenizer,
         "Tokenizer of a text: bytes, or bpe:N, N pieces (258 to 65536) that SentencePiece learns "
         "from it")
      ->capture_default_str()
      ->check([](const std::string& text) {
        return std::string(Tokenizer::Parse(text).status().message());
      });
  app.add_option("--cache-dir", o.cache_dir,
                 "Where tokens of a text are kept [$XDG_CACHE_HOME/ranklog, ~/.cache/ranklog]");
  app.add_flag(
      "--drop-last", o.drop_last,
      "Drop the incomplete last batch of an epoch; without it, the epoch's first samples fill it");
  app.add_option("--model", o.model, "tiny (0.8 M parameters), small (10.8 M), gpt2 (124 M)")
      ->capture_default_str()
      ->check(CLI::IsMember({"tiny", "small", "gpt2"}));
  app.add_option("--pad-vocab", o.pad_vocabulary,
                 "Round the vocabulary up to a multiple of this; 64 suits GPUs")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--seq-len", o.seq_len, "Tokens per sequence")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  app.add_option("--seed", o.seed, "Random seed of the weights and the sample order")
      ->capture_default_str()
      ->check([](const std::string& text) {
        uint64_t seed = 0;
        return absl::SimpleAtoi(text, &seed) ? "" : "use a whole number from 0 to 2^64 - 1";
      });
}

void AddTraining(CLI::App& app, Options& o) {
  CLI::Option* steps = app.add_option("--steps", o.steps, "Optimizer steps")
                           ->capture_default_str()
                           ->check(AtLeast(1));
  app.add_option("--epochs", o.epochs, "Passes over the text, instead of --steps")
      ->check(AtLeast(1))
      ->excludes(steps);
  app.add_option("--batch-size", o.batch_size, "Sequences per rank and micro-batch")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  app.add_option("--grad-accum", o.grad_accum, "Micro-batches per step")
      ->capture_default_str()
      ->check(CLI::Range(1, 65536));
  AddRate(app, "--lr", o.lr, 100, "Peak learning rate [6e-3 tiny, 1e-3 small, 6e-4 gpt2]");
  AddRate(app, "--min-lr", o.min_lr, 100, "Learning rate of the last step, at most --lr [lr / 10]");
  app.add_option(
         "--warmup-steps", o.warmup_steps,
         "Steps of linear learning-rate warmup [a tenth of the steps, 20 to 200, at most half]")
      ->check(AtLeast(0));
  AddRate(app, "--weight-decay", o.weight_decay, 100, "Weight decay of the matrices")
      ->capture_default_str();
  AddRate(app, "--grad-clip", o.grad_clip, 1e9, "Largest L2 norm of the gradient; 0: no limit")
      ->capture_default_str();
}

void AddRanks(CLI::App& app, Words& words) {
  CLI::Option* const ranks =
      app.add_option("--nproc-per-node", words.nproc_per_node,
                     "Number of ranks to start on this machine; gpu: one for each GPU")
          ->capture_default_str()
          ->check(CLI::Range(1, 1024) | CLI::IsMember({"gpu"}));
  CheckFirst(*ranks, [](const std::string& text) {
    int number = 0;
    const bool valid =
        text == "gpu" || (DecimalError(text).empty() && absl::SimpleAtoi(text, &number) &&
                          number >= 1 && number <= 1024);
    return valid ? std::string() : absl::StrCat(text, " is not a number from 1 to 1024, or gpu");
  });
  app.add_option("--comm", words.comm,
                 "nccl: on GPUs, one per rank; gloo: on CPUs; auto: nccl where there is a GPU")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}));
  app.add_option("--dtype", words.dtype,
                 "Precision of matrix products: float32 or bfloat16 (autocast)")
      ->capture_default_str()
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  app.add_option(
         "--group-timeout", words.group_timeout,
         "Seconds that a rank waits for the others before it names the missing ones and ends")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{86400}));
}

void AddCheckpoints(CLI::App& app, Options& o) {
  app.add_option("--save-every,--ckpt-every", o.save_every,
                 "Steps between checkpoints in SAVE_DIR/EXPERIMENT_NAME; 0: none, not even at the "
                 "end [500; with --epochs: an epoch]")
      ->check(AtLeast(0));
  app.add_option("--keep", o.keep, "Number of checkpoints to keep; the oldest ones are removed")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  app.add_flag("--log-checkpoints", o.log_checkpoints,
               "Log each checkpoint as an artifact of the run, which the tracker keeps");
  app.add_flag("--resume", o.resume,
               "Resume from the newest checkpoint, in the same run; without one, start at step 1");
  app.add_option("--init-from", o.init_from, "Checkpoint whose weights a new training starts from");
}

void AddLog(CLI::App& app, Options& o, Words& words) {
  app.add_option("--save-dir", o.save_dir,
                 "Parent directory of the experiment's directory; the run's id depends on it");
  app.add_option("--experiment-name", o.experiment_name,
                 "Name of the experiment; the run's id follows from --save-dir and this name");
  app.add_option("--group", words.group, "The run's group");
  app.add_option("--project", words.project, "The run's project");
  app.add_option("--log-strategy", words.log_strategy,
                 "main: one run; node: one per node; all: one per rank")
      ->check(CLI::IsMember({"main", "node", "all"}));
  app.add_option("--log-code", o.log_code,
                 "Log the source files below this directory as an artifact of the run");
  app.add_option("--log-every", o.log_every, "Steps between rows of the log; 0: only val/loss")
      ->capture_default_str()
      ->check(AtLeast(0));
  app.add_option("--histograms", o.histograms,
                 "Steps between histograms of each parameter's gradient, by rank 0; 0: none")
      ->capture_default_str()
      ->check(AtLeast(0));
  app.add_option("--val-every", o.val_every,
                 "Steps between validations; 0: never [50; with --epochs: an epoch]")
      ->check(AtLeast(0));
}

void FillDefaults(const CLI::App& app, const Words& words, Options& o) {
  o.tokenizer = *Tokenizer::Parse(words.tokenizer);
  if (app.count("--lr") == 0) o.lr = DefaultLearningRate(o.model);
  if (app.count("--min-lr") == 0) o.min_lr = o.lr / 10;
  o.comm = words.comm == "nccl" ? Comm::kNccl : words.comm == "gloo" ? Comm::kGloo : Comm::kAuto;
  o.nproc_per_node = words.nproc_per_node == "gpu" ? 0 : std::stoi(words.nproc_per_node);
  o.bfloat16 = words.dtype == "bfloat16";
  o.group_timeout = absl::Seconds(words.group_timeout);
  if (app.count("--group") > 0) o.group = words.group;
  if (app.count("--project") > 0) o.project = words.project;
  static const std::map<std::string, LogStrategy> strategies = {
      {"main", LogStrategy::kMain}, {"node", LogStrategy::kNode}, {"all", LogStrategy::kAll}};
  const auto strategy = strategies.find(words.log_strategy);
  if (strategy != strategies.end()) o.log_strategy = strategy->second;
}

}  // namespace

std::variant<Options, int> ParseCommandLine(int argc, const char* const* argv) {
  Options options;
  Words words;
  CLI::App app(kAbout, "ranklog-train");
  app.footer(kExamples);
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  app.set_version_flag("--version", "ranklog-train " RANKLOG_VERSION);
  AddModelAndData(app, options, words);
  AddTraining(app, options);
  AddRanks(app, words);
  AddCheckpoints(app, options);
  AddLog(app, options, words);
  CheckDecimals(app);
  try {
    CheckNoEmptyFlag({argv + 1, argv + argc});
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return WrongUsage(
        absl::StrCat(UsageError(error, app, argc, argv), "; see `ranklog-train --help`"));
  }
  const bool named = app.count("--save-dir") > 0 && app.count("--experiment-name") > 0;
  if (named && options.experiment_name.empty() && options.save_dir.empty()) {
    return WrongUsage("--save-dir and --experiment-name are empty; give a directory and a name");
  }
  if (options.experiment_name.empty() != options.save_dir.empty()) {
    return WrongUsage("--save-dir and --experiment-name go together; give both or neither");
  }
  const std::string name_error =
      options.experiment_name.empty() ? "" : ExperimentNameError(options.experiment_name);
  if (!name_error.empty()) {
    return WrongUsage(absl::StrCat("--experiment-name ", options.experiment_name, " ", name_error,
                                   "; use a name such as first or sweep/3"));
  }
  if (options.resume && options.save_dir.empty()) {
    return WrongUsage(
        "--resume needs --save-dir and --experiment-name, which name the experiment to resume");
  }
  if (options.save_dir.empty() && (options.save_every.value_or(0) > 0 || app.count("--keep") > 0)) {
    return WrongUsage(
        "--save-every and --keep need --save-dir and --experiment-name, which name the directory "
        "of the checkpoints");
  }
  FillDefaults(app, words, options);
  if (options.min_lr > options.lr) {
    return WrongUsage(absl::StrCat("--min-lr ", options.min_lr, " is above --lr ", options.lr,
                                   "; the learning rate falls from --lr to --min-lr"));
  }
  if (options.tokenizer.pieces > 0 && IsTokenData(options.data)) {
    return WrongUsage(
        absl::StrCat("--tokenizer is for a text; ", options.data, " holds tokens already"));
  }
  return options;
}

}  // namespace ranklog::trainer
