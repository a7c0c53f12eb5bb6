#include "trainer/saver.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <filesystem>
#include <stdexcept>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/base/messages.h"
#include "trainer/base/rank_error.h"

namespace ranklog::trainer {
namespace {

// Rank 0's choice, the first letter of its text to the others. The rest is the checkpoint to read.
constexpr char kError = 'E', kNewRun = 'N', kSameRun = 'S', kCheckpoint = 'C';

absl::Status FailureOfRankZero(const std::string& reason, int rank) {
  if (rank == 0) return absl::UnavailableError(reason);
  return absl::AbortedError(absl::StrCat("rank 0 failed: ", reason));
}

void Say(const std::string& text) { WriteMessage(absl::StrCat("ranklog-train: ", text, "\n")); }

}  // namespace

absl::StatusOr<std::string> Saver::Choose() {
  const std::string path = absl::StrCat(options_->save_dir, "/", options_->experiment_name);
  std::error_code error;
  const bool has_directory =
      !options_->save_dir.empty() && (saves() || std::filesystem::exists(path, error));
  if (has_directory) {
    absl::StatusOr<CheckpointDirectory> directory =
        CheckpointDirectory::Open(path, options_->keep, Say);
    if (!directory.ok()) return directory.status();
    directory_.emplace(*std::move(directory));
  }
  if (options_->resume && has_directory) {
    absl::StatusOr<std::optional<CheckpointDirectory::Found>> found = directory_->Latest(Say);
    if (!found.ok()) return found.status();
    if (*found) return ChooseCheckpoint(*std::move(*found));
  }
  if (options_->resume) Say(absl::StrCat("no checkpoint in ", path, ": starts at step 1"));
  if (!options_->init_from.empty()) {
    absl::StatusOr<Checkpoint> weights = ReadCheckpoint(options_->init_from);
    if (!weights.ok()) return weights.status();
    const absl::Status fits = CheckInitFrom(*weights, options_->init_from, facts_);
    if (!fits.ok()) return fits;
    start_ = *std::move(weights);
  }
  // Of a run that was never saved there is nothing to go on with, and the experiment's id is that of
  // an earlier one.
  const bool same_run = options_->resume && !(has_directory && directory_->HasEarlierRun());
  return absl::StrCat(std::string(1, same_run ? kSameRun : kNewRun), options_->init_from);
}

absl::StatusOr<std::string> Saver::ChooseCheckpoint(CheckpointDirectory::Found found) {
  const absl::StatusOr<std::vector<std::string>> changed =
      CheckResume(found.checkpoint, found.path, facts_, plan_.steps);
  if (!changed.ok()) return changed.status();
  const int64_t step = found.checkpoint.step;
  Say(step == plan_.steps ? absl::StrCat(found.path, " is already at the last step, ", step)
                          : absl::StrCat("going on after step ", step, ", from ", found.path));
  if (!changed->empty()) Say(absl::StrCat("from here on ", absl::StrJoin(*changed, "; ")));
  start_ = std::move(found.checkpoint);
  return absl::StrCat(std::string(1, kCheckpoint), found.path);
}

absl::Status Saver::SetEarlierRunAside() {
  const std::string failure = group_->FromRankZero("earlier run", [&] {
    if (!directory_) return std::string();
    const absl::StatusOr<std::string> aside = directory_->SetAside();
    if (!aside.ok()) return std::string(aside.status().message());
    if (!aside->empty()) {
      Say(absl::StrCat("this is a new training; the checkpoints of an earlier one are now in ",
                       *aside, " (--resume would have gone on with it)"));
    }
    return std::string();
  });
  return failure.empty() ? absl::OkStatus() : FailureOfRankZero(failure, group_->rank());
}

absl::StatusOr<Saver> Saver::Open(const Options& options, const Plan& plan, Facts facts,
                                  ProcessGroup& group) {
  Saver saver(options, plan, std::move(facts), group);
  const std::string choice = group.FromRankZero("checkpoint", [&] {
    absl::StatusOr<std::string> chosen = saver.Choose();
    return chosen.ok()
               ? *chosen
               : absl::StrCat(std::string(1, kError), std::string(chosen.status().message()));
  });
  const std::string path = choice.substr(1);
  if (choice[0] == kError) return FailureOfRankZero(path, group.rank());
  saver.new_run_ = choice[0] == kNewRun;
  saver.resumed_ = choice[0] == kCheckpoint;
  absl::Status read;
  if (!path.empty() && !saver.start_) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
    read = checkpoint.status();
    if (read.ok()) saver.start_ = *std::move(checkpoint);
  }
  if (group.Any(!read.ok())) {
    if (!read.ok()) return read;
    throw std::runtime_error(absl::StrCat("a rank cannot read ", path));
  }
  if (saver.resumed_) {
    saver.run_id_ = saver.start_->run_id;
    saver.saved_step_ = saver.start_->step;
    return saver;
  }
  read = saver.SetEarlierRunAside();
  if (!read.ok()) return read;
  return saver;
}

void Saver::ContinueRun(Settings& settings) const {
  settings.resume
      .clear();  // RANKLOG_RESUME would log other steps over those of an earlier training
  if (!options_->resume || new_run_) return;
  if (!run_id_.empty()) settings.run_id = run_id_;
  settings.resume = "allow";
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

bool Saver::Due(int64_t step, int64_t steps) const {
  return saves() && (step == steps || step % plan_.save_every == 0);
}

void Saver::Save(Checkpoint checkpoint, bool last) {
  const int64_t step = checkpoint.step;
  // The weights are the same on all ranks, so all of them throw.
  if (const std::string spoilt = FindNotFinite(checkpoint); !spoilt.empty()) {
    throw RankError(RankError::kThisRank,
                    absl::StrCat("step ", step, " left infinities or NaN in ", spoilt,
                                 ", so it is not saved; ", kAfterDivergence));
  }
  checkpoint.random = group_->Gather(RandomState(checkpoint.tensors.begin()->second.device()));
  checkpoint.options = facts_;
  absl::Status status;
  if (directory_) status = directory_->Save(checkpoint);
  if (!group_->Any(!status.ok())) {
    saved_step_ = step;
    return;
  }
  const std::string lost = absl::StrCat(
      "step ", step,
      " has no checkpoint: ", status.ok() ? "rank 0 could not write it" : status.message(), "; ",
      saved_step_ > 0 ? absl::StrCat("the newest one is of step ", saved_step_)
                      : "there is none yet");
  if (last) throw RankError(status.ok() ? RankError::kAnotherRank : RankError::kThisRank, lost);
  if (!status.ok()) Say(absl::StrCat(lost, ". The training goes on"));
}

}  // namespace ranklog::trainer
