#include "trainer/rank.h"

#include <cstdlib>
#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "ranklog/ranklog.h"
#include "trainer/base/error_file.h"
#include "trainer/base/messages.h"
#include "trainer/base/progress_line.h"
#include "trainer/base/rank_error.h"
#include "trainer/base/stop_signal.h"
#include "trainer/data/data.h"
#include "trainer/parallel/placement.h"
#include "trainer/parallel/process_group.h"
#include "trainer/plan.h"
#include "trainer/run_log.h"
#include "trainer/saver.h"
#include "trainer/start_check.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

constexpr absl::Duration kDaemonPatience = absl::Seconds(5);  // under load it needs one or two

// For the report of std::terminate(): after a timeout of a collective, NCCL's watchdog ends the
// rank by an exception in its own thread.
ProcessGroup* group_of_watchdog = nullptr;

void ReportError(const std::string& message, int rank) {
  WriteMessage(absl::StrCat("ranklog-train: rank ", rank, ": ", message, "\n"));
  WriteErrorFile(message, rank);
  AwaitMessages();  // the rank is about to end
}

// A line of the library, which may come while the line of progress is unfinished. Its advice to set
// RANKLOG_RESUME is for programs without checkpoints.
void PrintLibraryLine(Severity, const std::string& text) {
  std::string line = absl::StrReplaceAll(text, {{"\n", " "}});
  if (const size_t advice = line.find("Set RANKLOG_RESUME="); advice != std::string::npos) {
    line.replace(
        advice, std::string::npos,
        "Only --resume from a checkpoint continues a run: see --save-dir and --save-every");
  }
  WriteMessage(absl::StrCat("ranklog: ", line, "\n"));
}

// Reports the error, after the ranks that caused it. An error of this rank is printed first, and
// then reported to the other ranks, which wait for that. So the first message is that of the cause.
void ReportError(const ProcessGroup& group, const std::exception& error) {
  const auto* const known = dynamic_cast<const RankError*>(&error);
  const bool caused = known != nullptr && known->cause() == RankError::kThisRank;
  const std::string reason = ReasonOf(error), blame = caused ? "" : group.Blame(reason);
  const bool names_cause = known != nullptr || blame.empty();
  ReportError(names_cause ? reason : absl::StrCat(blame, ": ", reason), group.rank());
  if (caused) group.ReportFailure(reason);
}

// A collective function returns kAborted if rank 0 failed.
void ThrowIfFailed(const absl::Status& status) {
  if (status.ok()) return;
  throw RankError(absl::IsAborted(status) ? RankError::kAnotherRank : RankError::kThisRank,
                  std::string(status.message()));
}

[[noreturn]] void OnTerminate() {
  const int rank = group_of_watchdog->rank();
  try {
    if (const std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
    ReportError("terminated without an exception", rank);
  } catch (const std::exception& error) {
    ReportError(*group_of_watchdog, error);
  } catch (...) {
    ReportError("terminated by an unknown exception", rank);
  }
  std::_Exit(1);
}

Corpus LoadData(const Options& options, ProcessGroup& group) {
  DataProgress progress(/*shown=*/group.rank() == 0);
  absl::StatusOr<Corpus> corpus =
      LoadCorpus({.data = options.data,
                  .tokenizer = options.tokenizer,
                  .cache_dir = options.cache_dir,
                  .seq_len = static_cast<size_t>(options.seq_len),
                  .min_windows = static_cast<size_t>(options.batch_size) * group.world_size()},
                 group, progress);
  ThrowIfFailed(corpus.status());
  return *std::move(corpus);
}

Saver OpenSaver(const Options& options, const Settings& settings, const Corpus& corpus,
                ProcessGroup& group) {
  const Plan plan = MakePlan(options, corpus, group.world_size());
  Fingerprint fingerprint = FingerprintOf(options, settings, plan, corpus, group.world_size());
  CheckRanksAgree(options, fingerprint, group);
  absl::StatusOr<Saver> saver = Saver::Open(options, plan, std::move(fingerprint), group);
  ThrowIfFailed(saver.status());
  return *std::move(saver);
}

// Opens the run. If its id is not set, rank 0 chooses it, so that all ranks log to the same run.
Run OpenRun(Settings settings, ProcessGroup& group) {
  Run run;
  const std::string run_id = group.FromRankZero("run_id", [&] {
    run = Init(settings);
    return run.settings().run_id;
  });
  if (group.rank() != 0) {
    settings.run_id = run_id;
    run = Init(std::move(settings));
  }
  return run;
}

// Stores the run's id for the next start if a daemon has answered. Returns whether one has.
bool SettleRun(const Run& run, Saver& saver) {
  const Stats stats = run.stats();
  if (!stats.connected && stats.rows_durable == 0) return false;
  saver.SettleRun(JobRunId(run));
  return true;
}

// Waits for a daemon's answer with the run's id, so that no row is logged before the id is in
// run.json. Without a daemon, the rows are in the spool, and the training begins. Returns whether a
// daemon has answered.
bool AwaitRun(const Run& run, Saver& saver, const StopSignal& stop_signal) {
  const absl::Time end = absl::Now() + kDaemonPatience;
  bool settled = SettleRun(run, saver);
  while (!settled && !saver.run_settled() && !run.settings().disabled &&
         run.stats().last_error.empty() && stop_signal.received() == 0 && absl::Now() < end) {
    absl::SleepFor(absl::Milliseconds(5));
    settled = SettleRun(run, saver);
  }
  return settled;
}

// Trains, and shows the progress on rank 0's terminal. Returns the exit code.
int TrainAndShow(const Options& options, const Corpus& corpus, ProcessGroup& group, Run& run,
                 Saver& saver, const StopSignal& stop_signal) {
  bool settled = AwaitRun(run, saver, stop_signal);
  const bool complete = saver.complete();
  const auto set_state = [&](std::string state) {
    if (!complete) run.Summary({{"training", std::move(state)}});
  };
  set_state("not complete");
  if (group.rank() == 0 && !complete) {
    WriteMessage(absl::StrCat("training ", options.model, " on ", corpus.source, " with ",
                              group.world_size(),
                              group.world_size() == 1 ? " rank\n" : " ranks\n"));
    if (saver.saves() && group.world_size() == 1) {  // else the launcher prints it
      PrintOnInterrupt(
          absl::StrCat("ranklog-train: interrupted; to continue from the newest checkpoint in ",
                       options.save_dir, "/", options.experiment_name,
                       ", run the same command with --resume\n"));
    }
  }
  Position position;
  TrainEnd end = TrainEnd::kDone;
  {
    ProgressLine progress(/*shown=*/group.rank() == 0);
    const absl::Time start = absl::Now();
    const auto show = [&](const StepReport& report) {
      if (position.step == 0) position.before = report.step - 1;
      position.step = report.step;
      position.steps = report.steps;
      position.loss = report.loss;
      position.lr = report.lr;
      position.tokens_per_second = report.tokens_per_second;
      if (report.val_loss) {
        position.val_loss = *report.val_loss;
        position.val_step = report.step;
      }
      position.elapsed = absl::Now() - start;
      progress.Show(position);
      if (!settled) settled = SettleRun(run, saver);
    };
    end = Train(options, corpus, group, run, saver, stop_signal, show);
  }
  if (end == TrainEnd::kDone) {
    set_state("complete");
    return 0;
  }
  const std::string when = position.step == 0
                               ? "before its first step"
                               : absl::StrCat("after step ", position.step, " of ", position.steps);
  const bool requested = end == TrainEnd::kRequested;
  const std::string stopped = requested ? "stopped on its web page " : "stopped by a signal ";
  set_state(absl::StrCat(stopped, when, saver.has_checkpoint() ? "; --resume continues it" : ""));
  if (group.rank() == 0) {
    WriteMessage(absl::StrCat(
        stopped, when,
        saver.has_checkpoint() ? "; to continue, run the same command with --resume\n"
        : saver.saves()
            ? "; no checkpoint exists yet, the same command with --resume starts at step 1\n"
            : "; nothing is saved without --save-dir, or with --save-every 0\n"));
  }
  if (requested) return 0;  // as asked: nothing should start it again
  return saver.saves() ? kStoppedExitCode : 1;
}

// Prints the commands that show the run. The library has printed how many rows are durable.
void PrintNextCommand(const Run& run, FlushResult result) {
  if (run.settings().disabled) {
    WriteMessage("logging was disabled; nothing was kept\n");
    return;
  }
  const std::string id = JobRunId(run);
  // Without a daemon the rows are only in the spool, and `show` would not find the run.
  const bool unknown = result == FlushResult::kSpooled && !run.stats().connected;
  // If a job has several runs, rank 0's rows are in the run with its number.
  const bool several = run.settings().log_strategy != LogStrategy::kMain;
  WriteMessage(absl::StrCat("next: ", unknown ? "ranklog sync && " : "", "ranklog show ",
                            id[0] == '-' ? "-- " : "", id, several ? "-0" : "",
                            "\nas a page: ranklog ui\n"));
}

}  // namespace

int TrainAsRank(const Options& options, Settings settings) {
  const int rank = settings.rank.value_or(0);
  absl::StatusOr<Rendezvous> rendezvous =
      Rendezvous::FromEnvironment(rank, settings.world_size.value_or(1));
  if (!rendezvous.ok()) {
    ReportError(std::string(rendezvous.status().message()), rank);
    return 2;
  }
  const int local_rank = settings.local_rank.value_or(0);
  const absl::StatusOr<Placement> placement = ChoosePlacement(options.comm, local_rank, FindGpus());
  if (!placement.ok()) {
    ReportError(std::string(placement.status().message()), rank);
    return 1;
  }
  if (rank == 0 && !placement->note.empty()) {
    WriteMessage(
        absl::StrCat("ranklog-train: training on the CPU over Gloo: ", placement->note, "\n"));
  }
  absl::StatusOr<ProcessGroup> group =
      ProcessGroup::Join(*rendezvous, {.placement = *placement, .timeout = options.group_timeout});
  if (!group.ok()) {
    ReportError(std::string(group.status().message()), rank);
    return 1;
  }
  group_of_watchdog = &*group;
  std::set_terminate(OnTerminate);
  // So far a signal ended the rank at once, because no state had to be saved. From here on, a
  // signal is kept for the loop, also while the data is loaded. The object stays until the process
  // ends: the group's shutdown takes up to half a second, when a signal must not change the exit
  // code.
  static const StopSignal& stop_signal = *new StopSignal;
  Run run;
  std::optional<Saver> saver;
  int exit_code = 0;
  try {
    const Corpus corpus = LoadData(options, *group);
    saver.emplace(OpenSaver(options, settings, corpus, *group));
    saver->ContinueRun(settings);
    settings.on_message = PrintLibraryLine;
    run = OpenRun(std::move(settings), *group);
    exit_code = TrainAndShow(options, corpus, *group, run, *saver, stop_signal);
    group->Leave();
  } catch (const std::exception& error) {
    ReportError(*group, error);
    run.Finish(1);
    if (saver) SettleRun(run, *saver);
    // Without the destructors: the group's may wait for an all-reduce that the others never join.
    // They notice the end of this rank at once, because the kernel closes its connections.
    std::_Exit(1);
  }
  const FlushResult result = run.Finish(exit_code);
  SettleRun(run, *saver);
  if (rank == 0) PrintNextCommand(run, result);
  return exit_code;
}

}  // namespace ranklog::trainer
