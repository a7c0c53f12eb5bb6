#include "trainer/start_check.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <set>
#include <stdexcept>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "trainer/base/rank_error.h"
#include "trainer/model/model.h"

namespace ranklog::trainer {
namespace {

// The values that may change from start to start.
bool MayChange(const std::string& name) {
  static const auto* names = new std::set<std::string>{"threads",   "steps",        "lr",
                                                       "min-lr",    "warmup-steps", "weight-decay",
                                                       "grad-clip", "val-every",    "save-every"};
  return names->count(name) > 0;
}

std::string YesNo(bool on) { return on ? "true" : "false"; }

std::string NameOf(LogStrategy strategy) {
  if (strategy == LogStrategy::kMain) return "main";
  return strategy == LogStrategy::kNode ? "node" : "all";
}

std::string DigestOf(const Tokens& tokens) { return absl::StrFormat("%08x", tokens.Digest()); }

std::string Shown(const std::string& value) { return value.empty() ? "empty" : value; }

// "lr is 0.1 and was 0.2". A value that `before` lacks is newer than `before`, and does not count.
std::vector<std::string> Changes(const Fingerprint& now, const Fingerprint& before) {
  std::vector<std::string> changes;
  for (const auto& [name, value] : now) {
    const auto was = before.find(name);
    if (was == before.end() || was->second == value) continue;
    changes.push_back(absl::StrCat(name, " is ", Shown(value), " and was ", Shown(was->second)));
  }
  return changes;
}

// The part of a fingerprint that determines the model's shape.
Fingerprint ShapeFingerprint(const Fingerprint& fingerprint) {
  Fingerprint shape;
  for (const char* name : {"model", "seq-len", "vocabulary", "pad-vocab"}) {
    const auto fact = fingerprint.find(name);
    if (fact != fingerprint.end()) shape.insert(*fact);
  }
  return shape;
}

absl::StatusOr<GptShape> ShapeFrom(const Fingerprint& fingerprint) {
  const Fingerprint shape = ShapeFingerprint(fingerprint);
  int64_t seq_len = 0, vocabulary = 0, pad_vocabulary = 0;
  if (shape.size() < 4 || !absl::SimpleAtoi(shape.at("seq-len"), &seq_len) ||
      !absl::SimpleAtoi(shape.at("vocabulary"), &vocabulary) ||
      !absl::SimpleAtoi(shape.at("pad-vocab"), &pad_vocabulary) || pad_vocabulary < 1) {
    return absl::NotFoundError("no shape");
  }
  return ShapeOf(shape.at("model"), seq_len, vocabulary, pad_vocabulary);
}

}  // namespace

Fingerprint FingerprintOf(const Options& o, const Settings& settings, const Plan& plan,
                          const Corpus& corpus, int world_size) {
  return {{"model", o.model},
          {"pad-vocab", absl::StrCat(o.pad_vocabulary)},
          {"tokenizer", o.tokenizer.name()},
          {"vocabulary", absl::StrCat(corpus.vocabulary)},
          {"training tokens", absl::StrCat(corpus.train.size())},
          {"validation tokens", absl::StrCat(corpus.validation.size())},
          {"CRC-32 of the training tokens", DigestOf(corpus.train)},
          {"CRC-32 of the validation tokens", DigestOf(corpus.validation)},
          {"ranks", absl::StrCat(world_size)},
          {"seq-len", absl::StrCat(o.seq_len)},
          {"batch-size", absl::StrCat(o.batch_size)},
          {"grad-accum", absl::StrCat(o.grad_accum)},
          {"drop-last", YesNo(o.drop_last)},
          {"seed", absl::StrCat(o.seed)},
          {"dtype", o.bfloat16 ? "bfloat16" : "float32"},
          // Of OMP_NUM_THREADS: another number changes the order of sums, and so the last bits.
          {"threads", absl::StrCat(at::get_num_threads())},
          {"steps", absl::StrCat(plan.steps)},
          {"warmup-steps", absl::StrCat(plan.warmup_steps)},
          {"lr", absl::StrCat(o.lr)},
          {"min-lr", absl::StrCat(o.min_lr)},
          {"weight-decay", absl::StrCat(o.weight_decay)},
          {"grad-clip", absl::StrCat(o.grad_clip)},
          {"val-every", absl::StrCat(plan.val_every)},
          {"save-every", absl::StrCat(plan.save_every)},
          // They determine the run: its next rows would be in another one.
          {"project", settings.project},
          {"log-strategy", NameOf(settings.log_strategy)}};
}

void CheckRanksAgree(const Options& options, const Fingerprint& fingerprint, ProcessGroup& group) {
  Fingerprint mine = fingerprint;
  mine.erase("threads");  // a node may have more cores
  mine["save-dir is given"] = YesNo(!options.save_dir.empty());
  mine["resume"] = YesNo(options.resume);
  mine["init-from is given"] = YesNo(!options.init_from.empty());
  const std::string theirs = group.FromRankZero(
      "facts", [&] { return absl::StrJoin(mine, "\n", absl::PairFormatter("=")); });
  std::vector<std::string> differ;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(theirs, '\n'))) {
    const std::pair<std::string, std::string> fact = absl::StrSplit(line, absl::MaxSplits('=', 1));
    if (mine[fact.first] == fact.second) continue;
    differ.push_back(absl::StrCat(fact.first, " is ", Shown(mine[fact.first]), " on rank ",
                                  group.rank(), " and ", Shown(fact.second), " on rank 0"));
  }
  if (!group.Any(!differ.empty())) return;
  if (differ.empty())
    throw std::runtime_error(
        "the ranks were started with different options or data; see the message of the rank that "
        "differs");
  throw RankError(RankError::kThisRank,
                  absl::StrCat(absl::StrJoin(differ, "; "),
                               "; start all ranks with the same options and the same data"));
}

absl::StatusOr<std::vector<std::string>> CheckResume(const Checkpoint& checkpoint,
                                                     const std::string& path,
                                                     const Fingerprint& fingerprint,
                                                     int64_t steps) {
  std::vector<std::string> differ, changed;
  bool other_data = false;
  for (const auto& [name, value] : fingerprint) {
    std::vector<std::string> change = Changes({{name, value}}, checkpoint.options);
    auto& list = MayChange(name) ? changed : differ;
    other_data = other_data || (!change.empty() && absl::StartsWith(name, "CRC-32 of "));
    list.insert(list.end(), change.begin(), change.end());
  }
  if (!differ.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot resume from ", path, ": it is of another training",
        other_data ? ", with another text or tokenizer: " : ": ", absl::StrJoin(differ, "; "),
        "; start it as before, or a new one with --init-from and without --resume"));
  }
  if (checkpoint.step > steps) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot resume from ", path, ": it is of step ", checkpoint.step,
        ", but the training ends after step ", steps, "; give more --steps or --epochs"));
  }
  return changed;
}

absl::Status CheckInitFrom(const Checkpoint& checkpoint, const std::string& path,
                           const Fingerprint& fingerprint) {
  const absl::StatusOr<GptShape> theirs = ShapeFrom(checkpoint.options),
                                 mine = ShapeFrom(fingerprint);
  if (!theirs.ok() || !mine.ok() || *theirs == *mine) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "cannot use --init-from ", path, ": it has another model: ",
      absl::StrJoin(Changes(ShapeFingerprint(fingerprint), ShapeFingerprint(checkpoint.options)),
                    "; "),
      " there; give the options of that model"));
}

}  // namespace ranklog::trainer
