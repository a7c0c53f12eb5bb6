#include "trainer/run_log.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

constexpr std::chrono::seconds kDiskPatience(5);  // a daemon under load commits within one or two

// How the library begins to describe what Init() uses instead of a wrong setting.
constexpr const char* kReplacements[] = {"; Init() ", "; it counts as ",
                                         "; this process counts as ", "; the rows stay ",
                                         "; until then the run waits "};

}  // namespace

std::string ExperimentPath(const std::string& save_dir, const std::string& experiment_name) {
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(save_dir, error);
  return (directory / experiment_name).lexically_normal();
}

std::string RunId(const std::string& save_dir, const std::string& experiment_name) {
  const std::string text = ExperimentPath(save_dir, experiment_name);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
    return "";
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(digest.data()), size));
}

std::string JobRunId(const Run& run) {
  std::string id = run.stats().run_id;
  const Settings& settings = run.settings();
  const std::string suffix = absl::StrCat("-", settings.rank.value_or(0));
  if (settings.log_strategy != LogStrategy::kMain && id != settings.run_id &&
      absl::EndsWith(id, suffix)) {
    id.resize(id.size() - suffix.size());
  }
  return id;
}

void ApplyOptions(const Options& options, Settings& settings) {
  if (options.project) settings.project = *options.project;
  if (options.group) settings.group = *options.group;
  if (options.log_strategy) settings.log_strategy = *options.log_strategy;
  if (!options.experiment_name.empty()) {
    settings.run_id = RunId(options.save_dir, options.experiment_name);
    settings.name = options.experiment_name;
  }
  if (settings.name.empty()) settings.name = "gpt-" + options.model;
}

std::string SettingsError(const Options& options, const Settings& settings) {
  std::vector<std::string> mistakes = settings.Validate();
  if (mistakes.empty()) return "";
  for (std::string& mistake : mistakes) {
    for (const char* replacement : kReplacements)
      mistake.resize(std::min(mistake.size(), mistake.find(replacement)));
    absl::string_view rest = mistake;
    if (options.project && absl::ConsumePrefix(&rest, "project ")) {
      mistake = absl::StrCat("--project ", rest);
    } else if (options.group && absl::ConsumePrefix(&rest, "group ")) {
      mistake = absl::StrCat("--group ", rest);
    } else if (!options.experiment_name.empty() && absl::ConsumePrefix(&rest, "name ")) {
      mistake = absl::StrCat("--experiment-name ", rest);
    }
  }
  return absl::StrCat("training did not start: ", absl::StrJoin(mistakes, "; "));
}

std::vector<Value::Field> RunConfig(const Options& o, const Plan& plan, const RunFacts& facts) {
  return {{"data", facts.data_source},
          {"model", o.model},
          {"tokenizer", o.tokenizer.name()},
          {"cache_dir", o.cache_dir},
          {"drop_last", o.drop_last},
          {"pad_vocab", o.pad_vocabulary},
          {"vocabulary", facts.vocabulary},
          {"parameters", facts.parameters},
          {"training_tokens", facts.training_tokens},
          {"seed", o.seed},
          {"steps", plan.steps},
          {"epochs", plan.Epoch(plan.steps)},
          {"batches_per_epoch", plan.batches_per_epoch},
          {"steps_per_epoch", plan.steps_per_epoch},
          {"batch_size", o.batch_size},
          {"grad_accum", o.grad_accum},
          {"seq_len", o.seq_len},
          {"tokens_per_step", o.batch_size * plan.MicroBatches(1) * o.seq_len * facts.world_size},
          {"world_size", facts.world_size},
          {"nproc_per_node", facts.nproc_per_node},
          {"lr", o.lr},
          {"min_lr", o.min_lr},
          {"warmup_steps", plan.warmup_steps},
          {"weight_decay", o.weight_decay},
          {"grad_clip", o.grad_clip},
          {"dtype", o.bfloat16 ? "bfloat16" : "float32"},
          {"group_timeout", absl::ToInt64Seconds(o.group_timeout)},
          {"comm", facts.nccl ? "nccl" : "gloo"},
          {"log_code", o.log_code},
          {"log_every", o.log_every},
          {"histograms", o.histograms},
          {"val_every", plan.val_every},
          {"save_every", plan.save_every},
          {"keep", o.keep},
          {"log_checkpoints", o.log_checkpoints},
          {"resume", o.resume},
          {"init_from", o.init_from},
          {"save_dir", o.save_dir},
          {"experiment_name", o.experiment_name}};
}

RunLog::RunLog(Run& run)
    : run_(run),
      train_(run.Row({"train/loss", "train/lr", "train/tokens_per_second", "train/grad_norm",
                      "global_step", "epoch"})) {
  for (const char* all : {"train/*", "val/*"})
    run.DefineMetric(all, {.step_metric = "global_step"});
  for (const char* loss : {"train/loss", "val/loss"}) {
    run.DefineMetric(
        loss, {.step_metric = "global_step", .summary = {"min", "last"}, .goal = "minimize"});
  }
}

void RunLog::Train(int64_t step, double epoch, const TrainRow& row) {
  const std::array<double, 6> values = {
      row.loss, row.lr, row.tokens_per_second, row.grad_norm, static_cast<double>(step), epoch};
  run_.Log(train_, values, step);
}

void RunLog::Validation(int64_t step, double epoch, double loss) {
  run_.Log({{"val/loss", loss}, {"global_step", static_cast<double>(step)}, {"epoch", epoch}},
           step);
}

void RunLog::Checkpoint(const std::string& file, int64_t step, const Options& options) {
  if (file.empty() || file == checkpoint_) return;
  checkpoint_ = file;
  Artifact artifact;
  for (const char c : options.experiment_name) {
    artifact.name += absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' ? c : '_';
  }
  artifact.type = "model";
  artifact.paths = {file};
  artifact.aliases = {"latest", absl::StrCat("step-", step)};
  artifact.metadata = {{"step", step}};
  upload_ = run_.LogArtifact(artifact);
}

void RunLog::AwaitCheckpoint() {
  if (checkpoint_.empty() || upload_.Wait(std::chrono::minutes(1))) return;
  const bool refused = upload_.state() == Upload::State::kRefused;
  WriteMessage(absl::StrCat("ranklog-train: ", checkpoint_, " was not logged as an artifact: ",
                            refused ? upload_.error() : "its copy takes more than a minute", "\n"));
  checkpoint_.clear();
}

void RunLog::Gradients(int64_t step, double epoch, const std::vector<Value::Field>& histograms) {
  if (histograms.empty()) return;
  if (!std::exchange(defined_gradients_, true)) {
    run_.DefineMetric("gradients/*", {.step_metric = "global_step"});
  }
  std::vector<Metric> row = {{"global_step", static_cast<double>(step)}, {"epoch", epoch}};
  for (const auto& [key, histogram] : histograms) row.emplace_back(key, histogram);
  run_.Log(row, step);
}

void RunLog::AwaitDisk(int64_t step) {
  const std::chrono::milliseconds patience =
      behind_ && !run_.stats().connected
          ? std::chrono::milliseconds(0)
          : std::min<std::chrono::milliseconds>(run_.settings().finish_timeout, kDiskPatience);
  const bool behind = run_.Flush(patience) == FlushResult::kSpooled;
  if (behind && !std::exchange(behind_, behind)) {
    WriteMessage(absl::StrCat(
        "ranklog-train: rank ", run_.settings().rank.value_or(0), ": the rows up to step ", step,
        " are only in the spool, and their checkpoint is about to be saved: a power cut would lose "
        "these rows. ",
        run_.stats().last_error, "\n"));
  }
  behind_ = behind;
}

}  // namespace ranklog::trainer
