#include "trainer/saver.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "trainer/base/messages.h"
#include "trainer/base/rank_error.h"
#include "trainer/run_log.h"

namespace ranklog::trainer {
namespace {

// Rank 0's choice, as a text for the other ranks: whether the run continues, whether the training
// resumes, and the checkpoint to read. An error is one letter and its message.
constexpr char kError = 'E', kNewRun = 'N', kSameRun = 'S', kWeights = 'W', kCheckpoint = 'C';

// Whether this is a later start of a requeued Slurm job. For such a start, the daemon continues an
// existing run with the same id.
bool IsRequeued() {
  const char* const restarts = std::getenv("SLURM_RESTART_COUNT");
  int64_t count = 0;
  return std::getenv("SLURM_JOB_ID") != nullptr && restarts != nullptr &&
         absl::SimpleAtoi(restarts, &count) && count > 0;
}

absl::Status FailureOfRankZero(const std::string& reason, int rank) {
  if (rank == 0) return absl::UnavailableError(reason);
  return absl::AbortedError(absl::StrCat("rank 0 failed: ", reason));
}

// The reason of a failed write, and what to do.
std::string WhyNotWritten(const absl::Status& status, int keep) {
  const bool full = absl::IsResourceExhausted(status);
  return absl::StrCat(std::string(status.message()), full ? "; free space there" : "",
                      full && keep > 1 ? ", or resume with a smaller --keep" : "");
}

void Print(const std::string& text) { WriteMessage(absl::StrCat("ranklog-train: ", text, "\n")); }

}  // namespace

absl::StatusOr<std::string> Saver::Choose() {
  const std::string path = absl::StrCat(options_->save_dir, "/", options_->experiment_name);
  std::error_code error;
  if (!options_->save_dir.empty() && (saves() || std::filesystem::exists(path, error))) {
    absl::StatusOr<CheckpointDirectory> directory =
        CheckpointDirectory::Open(path, options_->keep, Print, loss_rise_);
    if (!directory.ok()) {
      const absl::Status& status = directory.status();
      return absl::IsUnavailable(status)
                 ? status
                 : absl::Status(status.code(), absl::StrCat(std::string(status.message()),
                                                            "; choose another --save-dir"));
    }
    directory_.emplace(*std::move(directory));
  }
  std::string file = options_->init_from;
  if (options_->resume && directory_) {
    absl::StatusOr<std::optional<CheckpointDirectory::Found>> found = directory_->Latest(Print);
    if (!found.ok()) return found.status();
    if (*found) {
      file = (*found)->path;
      const absl::Status resumes = ResumeFrom(*std::move(*found));
      if (!resumes.ok()) return resumes;
    }
  }
  if (options_->resume && !resumed_)
    Print(absl::StrCat("no checkpoint in ", path, "; starting at step 1"));
  if (!resumed_ && !file.empty()) {
    absl::StatusOr<Checkpoint> weights = ReadCheckpoint(file);
    if (!weights.ok()) {
      return absl::Status(weights.status().code(),
                          absl::StrCat(std::string(weights.status().message()),
                                       "; give --init-from another checkpoint file"));
    }
    const absl::Status fits = CheckInitFrom(*weights, file, fingerprint_);
    if (!fits.ok()) return fits;
    start_ = *std::move(weights);
  }
  if (!options_->save_dir.empty()) ChooseRunOfStart(path);
  return absl::StrCat(std::string(1, continues_run_ ? kSameRun : kNewRun),
                      std::string(1, resumed_ ? kCheckpoint : kWeights), file);
}

absl::Status Saver::ResumeFrom(CheckpointDirectory::Found found) {
  const absl::StatusOr<std::vector<std::string>> changed =
      CheckResume(found.checkpoint, found.path, fingerprint_, plan_.steps);
  if (!changed.ok()) return changed.status();
  const int64_t step = found.checkpoint.step;
  const bool complete = step == plan_.steps;
  Print(complete ? absl::StrCat(found.path, " is already at the last step, ", step,
                                "; to continue, give more --steps or --epochs")
                 : absl::StrCat("resuming after step ", step, " from ", found.path));
  if (!complete && !changed->empty())
    Print(absl::StrCat("changed since that checkpoint: ", absl::StrJoin(*changed, "; ")));
  start_ = std::move(found.checkpoint);
  resumed_ = true;
  return absl::OkStatus();
}

void Saver::ChooseRunOfStart(const std::string& path) {
  RunInputs inputs{.experiment = ExperimentPath(options_->save_dir, options_->experiment_name),
                   .first_id = RunId(options_->save_dir, options_->experiment_name),
                   .resumed = resumed_ ? &*start_ : nullptr,
                   .continues_without_checkpoint = options_->resume && saves(),
                   .earlier_runs = directory_ ? directory_->RunsWithCheckpoints() : 0,
                   .requeued = IsRequeued()};
  absl::StatusOr<RunFile> file = ReadRunFile(path);
  if (file.ok()) {
    inputs.file = *std::move(file);
  } else if (!absl::IsNotFound(file.status())) {
    Print(absl::StrCat("ignoring run.json: ", std::string(file.status().message())));
  }
  RunChoice choice = ChooseRun(inputs);
  continues_run_ = choice.continues;
  run_ = std::move(choice.file);
  if (!choice.copied_of.empty()) {
    Print(absl::StrCat(path, " is a copy of ", choice.copied_of,
                       ". The original keeps its run; this copy starts the new run ", run_.run_id));
  } else if (!continues_run_ && run_.run_id != inputs.first_id) {
    Print(absl::StrCat("this start is a new run, ", run_.run_id,
                       choice.unsettled ? ": no daemon has answered the earlier one" : ""));
  }
}

absl::Status Saver::PrepareDirectory() {
  const std::string failure = group_->FromRankZero("directory", [&] {
    if (!directory_) return std::string();
    // First, because a full disk has no room for one more file. This one was read, so it is good.
    if (resumed_ && saves() && !complete()) directory_->RemoveOld(start_->step);
    // Before the checkpoints move: a start after a kill at this point must not log to the earlier
    // run.
    const absl::Status written = WriteRunFile(directory_->path(), run_);
    if (!written.ok()) return WhyNotWritten(written, options_->keep);
    if (resumed_) return std::string();
    const std::filesystem::path source = options_->init_from;
    std::error_code none;
    const bool moved_source =
        !source.empty() &&
        std::filesystem::equivalent(std::filesystem::absolute(source, none).parent_path(),
                                    directory_->path(), none);
    const absl::StatusOr<std::string> aside = directory_->SetAside();
    if (!aside.ok()) return std::string(aside.status().message());
    if (!aside->empty()) {
      Print(absl::StrCat("starting a new training; moved the checkpoints of the earlier one to ",
                         *aside, " (--resume would have continued it)",
                         moved_source ? absl::StrCat("; the file of --init-from is now ", *aside,
                                                     "/", source.filename().string())
                                      : ""));
    }
    return std::string();
  });
  return failure.empty() ? absl::OkStatus() : FailureOfRankZero(failure, group_->rank());
}

absl::StatusOr<Saver> Saver::Open(const Options& options, const Plan& plan, Fingerprint fingerprint,
                                  ProcessGroup& group) {
  Saver saver(options, plan, std::move(fingerprint), group);
  const std::string choice = group.FromRankZero("checkpoint", [&] {
    absl::StatusOr<std::string> chosen = saver.Choose();
    return chosen.ok()
               ? *chosen
               : absl::StrCat(std::string(1, kError), std::string(chosen.status().message()));
  });
  if (choice[0] == kError) return FailureOfRankZero(choice.substr(1), group.rank());
  saver.continues_run_ = choice[0] == kSameRun;
  saver.resumed_ = choice[1] == kCheckpoint;
  const std::string path = choice.substr(2);
  absl::Status read;
  if (!path.empty() && !saver.start_) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
    read = checkpoint.status();
    if (read.ok()) saver.start_ = *std::move(checkpoint);
  }
  if (group.Any(!read.ok())) {
    if (!read.ok()) return read;
    throw std::runtime_error(absl::StrCat("cannot start: another rank cannot read ", path));
  }
  if (saver.resumed_) saver.saved_step_ = saver.start_step_ = saver.start_->step;
  if (saver.start_ && group.rank() == 0) saver.expected_loss_ = saver.ExpectedLoss();
  read = saver.PrepareDirectory();
  if (!read.ok()) return read;
  return saver;
}

void Saver::ContinueRun(Settings& settings) const {
  const Settings environment = Settings::FromEnvironment();
  // Otherwise the steps would replace those of an earlier training.
  if (group_->rank() == 0 && !environment.resume.empty()) {
    Print(
        "WANDB_RESUME or RANKLOG_RESUME is ignored: --resume, with --save-dir and "
        "--experiment-name, continues a training and its run");
  }
  settings.resume = continues_run_ ? "allow" : "";
  if (run_.run_id.empty()) return;  // not rank 0, or no --save-dir
  if (!environment.run_id.empty() && environment.run_id != run_.run_id) {
    Print(
        absl::StrCat("WANDB_RUN_ID or RANKLOG_RUN_ID is ignored: the run of this --save-dir and "
                     "--experiment-name is ",
                     run_.run_id));
  }
  settings.run_id = run_.run_id;
}

void Saver::SettleRun(const std::string& run_id) {
  if (!directory_ || run_id.empty() || (run_.settled && run_id == run_.run_id)) return;
  run_.run_id = run_id;
  run_.settled = true;
  const absl::Status written = WriteRunFile(directory_->path(), run_);
  if (!written.ok()) Print(WhyNotWritten(written, options_->keep));
}

absl::StatusOr<int64_t> Saver::Restore(torch::nn::Module& model, torch::optim::AdamW& optimizer,
                                       EpochSampler& sampler) {
  if (!start_) return 0;
  const Checkpoint start = *std::exchange(start_, std::nullopt);
  absl::Status status = RestoreModel(start, model);
  if (!status.ok()) return status;
  if (!resumed_) return 0;
  status = RestoreOptimizer(start, model, optimizer);
  const at::Device device = model.parameters()[0].device();
  if (status.ok()) status = SetRandomState(start.random[group_->rank()], device);
  if (!status.ok()) return status;
  sampler.Seek(start.sampler);
  return start.step;
}

bool Saver::saves() const { return !options_->save_dir.empty() && plan_.save_every > 0; }

std::string Saver::AfterDivergence() const {
  return AdviceAfterDivergence(
      options_->save_dir.empty() ? ""
                                 : absl::StrCat(options_->save_dir, "/", options_->experiment_name),
      loss_rise_);
}

double Saver::ExpectedLoss() const {
  double vocabulary = 0;
  const auto fact = fingerprint_.find("vocabulary");
  double loss = fact != fingerprint_.end() && absl::SimpleAtod(fact->second, &vocabulary)
                    ? std::log(vocabulary)  // of a random guess
                    : std::numeric_limits<double>::infinity();
  if (start_->train_loss < loss) loss = start_->train_loss;
  return resumed_ ? std::min(loss, directory_->LowestLoss()) : loss;
}

void Saver::WarnOfRise(int64_t step, double loss) {
  if (!(loss > expected_loss_ + loss_rise_) || std::exchange(warned_, true)) return;
  Print(absl::StrFormat(
      "the train loss of step %d is %.3g, far above the expected %.3g. The weights may be spoilt: "
      "%s",
      step, loss, expected_loss_,
      saved_step_ > 0 ? absl::StrCat("if the loss stays there, stop, and ", AfterDivergence())
                      : absl::StrCat("if the loss stays there, take an older checkpoint than ",
                                     options_->init_from)));
}

void Saver::CheckNumbers(int64_t step, double loss, double grad_norm) {
  if (!std::isfinite(loss) || !std::isfinite(grad_norm)) {
    throw RankError(
        RankError::kThisRank,
        absl::StrCat("step ", step, ": the loss is ", loss, " and the gradient norm is ", grad_norm,
                     ", so the weights are no longer usable; ", AfterDivergence()));
  }
  if (step == start_step_ + 1) WarnOfRise(step, loss);
}

bool Saver::Due(int64_t step, int64_t steps) const {
  return saves() && (step == steps || step % plan_.save_every == 0);
}

void Saver::Save(Checkpoint checkpoint, bool last) {
  const int64_t step = checkpoint.step;
  // The weights are the same on all ranks, so all of them throw.
  if (const std::string spoilt = FindNotFinite(checkpoint); !spoilt.empty()) {
    throw RankError(RankError::kThisRank,
                    absl::StrCat("cannot save the checkpoint of step ", step, ": tensor ", spoilt,
                                 " contains infinities or NaN; ", AfterDivergence()));
  }
  checkpoint.random = group_->Gather(RandomState(checkpoint.tensors.begin()->second.device()));
  at::Tensor loss = at::full({1}, checkpoint.train_loss, at::kDouble);
  group_->Sum(loss);
  checkpoint.train_loss = loss.item<double>() / group_->world_size();
  checkpoint.options = fingerprint_;
  checkpoint.experiment = run_.experiment;
  checkpoint.experiment_id = run_.experiment_id;
  if (checkpoint.run_id != run_.run_id) SettleRun(checkpoint.run_id);  // the daemon returned it
  absl::Status status;
  if (directory_) status = directory_->Save(checkpoint);
  if (!group_->Any(!status.ok())) {
    saved_step_ = step;
    WarnOfRise(step, checkpoint.train_loss);
    if (directory_) expected_loss_ = std::min(expected_loss_, checkpoint.train_loss);
    return;
  }
  const std::string lost = absl::StrCat(
      "cannot save the checkpoint of step ", step, ": ",
      status.ok() ? "rank 0 failed to write it" : WhyNotWritten(status, options_->keep), "; ",
      saved_step_ > 0 ? absl::StrCat("the newest checkpoint is of step ", saved_step_)
                      : "no checkpoint exists yet");
  if (last) throw RankError(status.ok() ? RankError::kAnotherRank : RankError::kThisRank, lost);
  if (!status.ok()) Print(absl::StrCat(lost, ". Training continues"));
}

}  // namespace ranklog::trainer
