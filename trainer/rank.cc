#include "trainer/rank.h"

#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ranklog/ranklog.h"
#include "trainer/data.h"
#include "trainer/error_file.h"
#include "trainer/placement.h"
#include "trainer/process_group.h"
#include "trainer/progress.h"
#include "trainer/saver.h"
#include "trainer/stop_signal.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

// What std::terminate() reports: NCCL's watchdog ends a rank whose collective timed out by an
// exception in a thread of its own.
ProcessGroup* group_of_watchdog = nullptr;

void ReportError(const std::string& message, int rank) {
  std::cerr << absl::StrCat("\nranklog-train: rank ", rank, ": ", message, "\n");
  WriteErrorFile(message, rank);
}

// The error, after the ranks that caused it.
std::string WithBlame(const ProcessGroup& group, const std::string& error) {
  const std::string blame = group.Blame(error);
  return blame.empty() ? error : absl::StrCat(blame, ": ", error);
}

[[noreturn]] void OnTerminate() {
  std::string message = "terminated without an exception";
  try {
    if (const std::exception_ptr current = std::current_exception())
      std::rethrow_exception(current);
  } catch (const std::exception& error) {
    message = error.what();
  } catch (...) {
    message = "terminated by an unknown exception";
  }
  ReportError(WithBlame(*group_of_watchdog, message), group_of_watchdog->rank());
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
  if (!corpus.ok()) throw std::runtime_error(std::string(corpus.status().message()));
  return *std::move(corpus);
}

// Opens the run. Rank 0 settles its id, if nobody else has, so that all ranks log to the same one.
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

// Trains, and shows on rank 0's terminal how far it is. False: it was told to stop before the end.
bool TrainAndShow(const Options& options, const Corpus& corpus, ProcessGroup& group, Run& run,
                  Saver& saver, const StopSignal& stop_signal) {
  if (group.rank() == 0) {
    std::cerr << absl::StrCat("training ", options.model, " on ", corpus.source, " with ",
                              group.world_size(), group.world_size() == 1 ? " rank" : " ranks",
                              ", run ", run.settings().run_id, "\n");
  }
  Progress progress(/*shown=*/group.rank() == 0);
  Position position;
  const absl::Time start = absl::Now();
  const auto show = [&](const StepReport& report) {
    position.step = report.step;
    position.steps = report.steps;
    position.loss = report.loss;
    position.lr = report.lr;
    position.tokens_per_second = report.tokens_per_second;
    if (report.val_loss) position.val_loss = *report.val_loss;
    position.elapsed = absl::Now() - start;
    progress.Show(position);
  };
  const bool done = Train(options, corpus, group, run, saver, stop_signal, show);
  if (!done && group.rank() == 0) {
    const std::string when =
        position.step == 0 ? "before its first step"
                           : absl::StrCat("after step ", position.step, " of ", position.steps);
    std::cerr << absl::StrCat("\ntold to stop: ended ", when,
                              "; the same command with --resume goes on\n");
  }
  return done;
}

// Says what became of the log, and what to type next.
void SayWhereItIs(const Run& run, FlushResult result) {
  const Stats stats = run.stats();
  const std::string& id = run.settings().run_id;
  if (run.settings().disabled) {
    std::cerr << "logging was disabled; nothing was kept\n";
    return;
  }
  std::cerr << absl::StrCat("run ", id, ": ", stats.rows_logged, " rows of rank 0 ",
                            result != FlushResult::kSpooled
                                ? "are on this node's disk"
                                : "are in the spool; ranklogd takes them once it runs",
                            "\n");
  const uint64_t lost =
      stats.lost_ring_full + stats.lost_invalid + stats.lost_step_behind + stats.lost_too_large;
  if (lost > 0) std::cerr << absl::StrCat(lost, " rows were not taken: ", stats.last_error, "\n");
  // Where a job has several runs, rank 0's rows are in the one with its number.
  const bool several = run.settings().log_strategy != LogStrategy::kMain;
  std::cerr << absl::StrCat("next: ranklog show ", id[0] == '-' ? "-- " : "", id,
                            several ? "-0" : "", "\n");
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
  const absl::StatusOr<Placement> placement = Place(options.comm, local_rank, FindGpus());
  if (!placement.ok()) {
    ReportError(std::string(placement.status().message()), rank);
    return 1;
  }
  if (rank == 0 && !placement->note.empty())
    std::cerr << "ranklog-train: training on the CPU over Gloo: " << placement->note << "\n";
  absl::StatusOr<ProcessGroup> group =
      ProcessGroup::Join(*rendezvous, {.placement = *placement, .timeout = options.group_timeout});
  if (!group.ok()) {
    ReportError(std::string(group.status().message()), rank);
    return 1;
  }
  group_of_watchdog = &*group;
  std::set_terminate(OnTerminate);
  // Until here there was nothing to save, and a signal ended the rank at once. From here on it is
  // kept for the loop, also while the data is loaded.
  const StopSignal stop_signal;
  Run run;
  int exit_code = 0;
  try {
    const Corpus corpus = LoadData(options, *group);
    absl::StatusOr<Saver> saver = Saver::Open(options, *group);
    if (!saver.ok()) throw std::runtime_error(std::string(saver.status().message()));
    saver->ContinueRun(settings);
    run = OpenRun(std::move(settings), *group);
    if (!TrainAndShow(options, corpus, *group, run, *saver, stop_signal))
      exit_code = kStoppedExitCode;
    group->Leave();
  } catch (const std::exception& error) {
    ReportError(WithBlame(*group, error.what()), rank);
    run.Finish(1);
    // Without the destructors: the group's may wait for an all-reduce that the others will never
    // join. They see our end at once, because the kernel closes our connections.
    std::_Exit(1);
  }
  const FlushResult result = run.Finish(exit_code);
  if (rank == 0) SayWhereItIs(run, result);
  return exit_code;
}

}  // namespace ranklog::trainer
