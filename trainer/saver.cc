#include "trainer/saver.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>
#include <torch/optim/adamw.h>

#include <iostream>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ranklog::trainer {
namespace {

// Rank 0's choice, the first letter of its text to the others.
constexpr char kError = 'E', kNewRun = 'N', kSameRun = 'S', kCheckpoint = 'C';

// What may change from start to start: the curve bends there, but goes on.
const std::set<std::string>& Changeable() {
  static const auto* names = new std::set<std::string>{"steps",        "lr",           "min-lr",
                                                       "warmup-steps", "weight-decay", "grad-clip"};
  return *names;
}

// What must be the same, or be told, when a training goes on from a checkpoint.
std::map<std::string, std::string> Facts(const Options& o, const Plan& plan, const Corpus& corpus,
                                         int world_size) {
  return {{"model", o.model},
          {"pad-vocab", absl::StrCat(o.pad_vocabulary)},
          {"tokenizer", o.tokenizer.name()},
          {"vocabulary", absl::StrCat(corpus.vocabulary)},
          {"training tokens", absl::StrCat(corpus.train.size())},
          {"validation tokens", absl::StrCat(corpus.validation.size())},
          {"ranks", absl::StrCat(world_size)},
          {"seq-len", absl::StrCat(o.seq_len)},
          {"batch-size", absl::StrCat(o.batch_size)},
          {"grad-accum", absl::StrCat(o.grad_accum)},
          {"drop-last", o.drop_last ? "true" : "false"},
          {"seed", absl::StrCat(o.seed)},
          {"dtype", o.bfloat16 ? "bfloat16" : "float32"},
          {"steps", absl::StrCat(plan.steps)},
          {"warmup-steps", absl::StrCat(plan.warmup_steps)},
          {"lr", absl::StrCat(o.lr)},
          {"min-lr", absl::StrCat(o.min_lr)},
          {"weight-decay", absl::StrCat(o.weight_decay)},
          {"grad-clip", absl::StrCat(o.grad_clip)}};
}

void Say(const std::string& text) { std::cerr << absl::StrCat("ranklog-train: ", text, "\n"); }

}  // namespace

absl::StatusOr<std::string> Saver::Choose() {
  if (options_->save_dir.empty() || options_->save_every == 0) {
    return std::string(1, options_->resume ? kSameRun : kNewRun);
  }
  absl::StatusOr<CheckpointDirectory> directory = CheckpointDirectory::Open(
      absl::StrCat(options_->save_dir, "/", options_->experiment_name), options_->keep);
  if (!directory.ok()) return directory.status();
  directory_.emplace(*std::move(directory));
  if (!options_->resume) {
    const absl::StatusOr<std::string> aside = directory_->SetAside();
    if (!aside.ok()) return aside.status();
    if (!aside->empty()) {
      Say(absl::StrCat("this is a new run; the checkpoints of an earlier one are now in ", *aside,
                       " (--resume would have gone on with it)"));
    }
    return std::string(1, kNewRun);
  }
  absl::StatusOr<std::optional<CheckpointDirectory::Found>> found = directory_->Latest(Say);
  if (!found.ok()) return found.status();
  if (*found) {
    start_ = std::move((*found)->checkpoint);
    return absl::StrCat(std::string(1, kCheckpoint), (*found)->path);
  }
  // Of a run that was never saved there is nothing to go on with, and the experiment's id is that of
  // an earlier one.
  return std::string(1, directory_->HasEarlierRun() ? kNewRun : kSameRun);
}

absl::StatusOr<Saver> Saver::Open(const Options& options, ProcessGroup& group) {
  Saver saver(options, group);
  const std::string choice = group.FromRankZero("checkpoint", [&] {
    absl::StatusOr<std::string> chosen = saver.Choose();
    return chosen.ok()
               ? *chosen
               : absl::StrCat(std::string(1, kError), std::string(chosen.status().message()));
  });
  const std::string rest = choice.substr(1);
  if (choice[0] == kError) return absl::UnavailableError(rest);
  saver.new_run_ = choice[0] == kNewRun;
  saver.resumed_ = choice[0] == kCheckpoint;
  const std::string path = saver.resumed_ ? rest : options.init_from;
  if (!path.empty() && !saver.start_) {
    absl::StatusOr<Checkpoint> checkpoint = ReadCheckpoint(path);
    if (!checkpoint.ok()) return checkpoint.status();
    saver.start_ = *std::move(checkpoint);
  }
  if (saver.resumed_) saver.run_id_ = saver.start_->run_id;
  if (group.rank() == 0 && saver.resumed_) {
    Say(absl::StrCat("going on after step ", saver.start_->step, ", from ", path));
  }
  return saver;
}

void Saver::ContinueRun(Settings& settings) const {
  if (!options_->resume || new_run_) return;
  if (!run_id_.empty()) settings.run_id = run_id_;
  settings.resume = "allow";
}

absl::StatusOr<int64_t> Saver::Restore(const Plan& plan, const Corpus& corpus,
                                       torch::nn::Module& model, torch::optim::AdamW& optimizer,
                                       EpochSampler& sampler) {
  facts_ = Facts(*options_, plan, corpus, group_->world_size());
  if (!start_) return 0;
  const Checkpoint start = *std::exchange(start_, std::nullopt);
  if (!resumed_) {
    const absl::Status status = RestoreModel(start, model);
    if (!status.ok()) return status;
    return 0;
  }
  std::vector<std::string> differ, changed;
  for (const auto& [name, value] : facts_) {
    const auto before = start.options.find(name);
    const std::string was = before == start.options.end() ? "absent" : before->second;
    if (was == value) continue;
    (Changeable().count(name) > 0 ? changed : differ)
        .push_back(absl::StrCat(name, " is ", value, " and was ", was));
  }
  if (!differ.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint is of another training: ", absl::StrJoin(differ, "; "),
                     ". Start it as before, or a new one with --init-from"));
  }
  if (!changed.empty() && group_->rank() == 0) {
    Say(absl::StrCat("from here on ", absl::StrJoin(changed, "; ")));
  }
  absl::Status status = RestoreModel(start, model);
  if (status.ok()) status = RestoreOptimizer(start, model, optimizer);
  const at::Device device = model.parameters()[0].device();
  if (status.ok()) status = SetRandomState(start.random[group_->rank()], device);
  if (!status.ok()) return status;
  sampler.Seek(start.sampler);
  return start.step;
}

bool Saver::Due(int64_t step, int64_t steps) const {
  if (options_->save_dir.empty() || options_->save_every == 0) return false;
  return step == steps || step % options_->save_every == 0;
}

void Saver::Save(Checkpoint checkpoint, bool last) {
  checkpoint.random = group_->Gather(RandomState(checkpoint.tensors.begin()->second.device()));
  checkpoint.options = facts_;
  absl::Status status;
  if (directory_) status = directory_->Save(checkpoint);
  if (!group_->Any(!status.ok())) return;
  const std::string reason =
      status.ok() ? "rank 0 could not write the last checkpoint" : std::string(status.message());
  if (last) throw std::runtime_error(reason);
  if (!status.ok()) Say(reason);
}

}  // namespace ranklog::trainer
