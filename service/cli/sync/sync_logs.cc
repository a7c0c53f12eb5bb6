#include "service/cli/sync/sync_logs.h"

#include <fnmatch.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/cli/command_line.h"
#include "service/cli/node/run_log_sync.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/terminal.h"
#include "service/cli/sync/log_sync_report.h"
#include "service/cli/sync/sync_report.h"
#include "service/deliver/destination.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kLogPoll = absl::Milliseconds(50);
constexpr char kImported[] = "/imported";  // below the state directory
// The part of the work that an import is; the delivery is the rest.
constexpr double kImportShare = 0.3;

volatile sig_atomic_t sync_interrupted = 0;

bool MatchesAny(const std::string& name, const std::vector<std::string>& globs) {
  return std::any_of(globs.begin(), globs.end(), [&name](const std::string& glob) {
    return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
  });
}

// The directories in which the official client keeps its runs.
std::vector<std::string> UsualRunDirs() {
  std::string root = EnvironmentVariable("WANDB_DIR");
  if (root.empty()) root = ".";
  std::vector<std::string> dirs;
  for (const char* const name : {"/wandb", "/.wandb"}) {
    std::error_code error;
    if (std::filesystem::is_directory(root + name, error)) dirs.push_back(root + name);
  }
  return dirs;
}

// One call of the command: finds the logs, makes a job of each run, and does the jobs, several at a
// time. The importing is done here, the delivering by the threads of the jobs.
class LogsSync {
 public:
  // `globals` and `flags` must outlive this object.
  LogsSync(const Globals& globals, const std::string& state_dir, const LogSyncFlags& flags)
      : globals_(globals),
        root_(state_dir + kImported),
        credentials_dir_(state_dir),
        flags_(flags) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(const std::vector<std::string> paths, Paths());
    RETURN_IF_ERROR(Find(paths));
    RETURN_IF_ERROR(CheckIds());
    if (!flags_.dry_run) Work();
    return Conclude();
  }

 private:
  absl::StatusOr<std::vector<std::string>> Paths() const {
    std::vector<std::string> paths = flags_.paths;
    if (!flags_.all) return paths;
    const std::vector<std::string> usual = UsualRunDirs();
    if (usual.empty()) {
      return absl::NotFoundError(
          "there is no directory wandb or .wandb here; give its path, or set WANDB_DIR");
    }
    paths.insert(paths.end(), usual.begin(), usual.end());
    return paths;
  }

  // Reads the beginnings of the logs, and makes a job of each run.
  absl::Status Find(const std::vector<std::string>& paths) {
    std::map<imports::Target, std::vector<imports::RunLog>> runs;
    std::set<std::string> seen;
    for (const std::string& path : paths) {
      ASSIGN_OR_RETURN(const std::vector<std::string> logs, imports::FindLogs(path));
      for (const std::string& file : logs) {
        std::error_code error;
        const std::filesystem::path real = std::filesystem::canonical(file, error);
        if (!seen.insert(real.string()).second) continue;
        const std::string name = real.parent_path().filename().string();
        if (!flags_.include.empty() && !MatchesAny(name, flags_.include)) continue;
        if (MatchesAny(name, flags_.exclude)) continue;
        absl::StatusOr<imports::RunLog> log = imports::ReadRunLog(real.string());
        if (!log.ok()) {
          unreadable_.push_back({real.string(), name, log.status()});
          continue;
        }
        std::vector<imports::RunLog>& parts = runs[imports::TargetOf(*log, flags_.instead)];
        parts.push_back(*std::move(log));
      }
    }
    for (auto& [target, logs] : runs) {
      std::sort(logs.begin(), logs.end(),
                [](const auto& a, const auto& b) { return a.started_us < b.started_us; });
      AddJob(target, std::move(logs));
    }
    return absl::OkStatus();
  }

  void AddJob(const imports::Target& target, std::vector<imports::RunLog> logs) {
    const deliver::Destination& destination =
        flags_.to.empty() ? deliver::UsualDestination() : *deliver::FindDestination(flags_.to);
    RunLogSync::Options options{.target = target,
                                .kind = destination.kind(),
                                .credentials_dir = credentials_dir_,
                                .live = flags_.live,
                                .timeout = flags_.timeout};
    std::string url = flags_.base_url;
    const std::string& setting = destination.words().url_setting;
    if (url.empty()) url = EnvironmentVariable(destination.VariableOf(setting).c_str());
    std::vector<std::string> mistakes;
    if (!url.empty()) {
      options.destination_settings[destination.kind()] =
          destination.SettingsOf({{setting, url}}, &mistakes);
    }
    const auto is_synced = [](const imports::RunLog& log) { return log.IsSynced(); };
    const bool synced = std::all_of(logs.begin(), logs.end(), is_synced);
    LogJob& job = jobs_.emplace_back();
    job.sync = std::make_unique<RunLogSync>(root_, logs, options);
    // Parts that another program has sent stay as they are.
    if (!synced && !job.sync->IsKnown() && std::erase_if(logs, is_synced) > 0) {
      job.sync = std::make_unique<RunLogSync>(root_, std::move(logs), std::move(options));
    }
    job.errors = std::make_unique<SyncReport>(globals_, job.sync->state_dir());
    job.skipped = synced && !flags_.include_synced;
    if (!mistakes.empty()) job.status = absl::InvalidArgumentError(absl::StrJoin(mistakes, "; "));
    const bool elsewhere = flags_.instead != imports::Target();
    if (synced && !job.skipped && !job.sync->IsKnown() && !elsewhere) {
      job.status = absl::FailedPreconditionError(
          "another program synced it, so what it has sent is not known here, and would be sent "
          "again; "
          "remove the file *.wandb.synced to do that");
    }
  }

  // Several runs under one id would become one.
  absl::Status CheckIds() const {
    if (flags_.instead.run_id.empty()) return absl::OkStatus();
    std::set<std::string> ids;
    for (const LogJob& job : jobs_) {
      for (const imports::RunLog& log : job.sync->logs()) ids.insert(log.run.run_id());
    }
    if (ids.size() <= 1) return absl::OkStatus();
    return WrongUsage(absl::StrCat("--as-id is for one run, but there are ", ids.size()));
  }

  void Work() {
    ProgressBar progress("sync", /*lines=*/true);
    std::list<LogJob*> active;
    for (LogJob& job : jobs_) {
      if (job.skipped || !job.status.ok()) continue;
      while (active.size() >= flags_.parallel) Look(&active, &progress);
      if (sync_interrupted != 0) {
        job.status = absl::CancelledError("not begun when the command was interrupted");
        continue;
      }
      job.status = job.sync->Start([&](uint64_t bytes) {
        importing_bytes_ = static_cast<double>(bytes);
        Show(active, &progress);
        return sync_interrupted == 0;
      });
      importing_bytes_ = 0;
      if (job.status.ok()) {
        job.errors->IgnoreOldErrors({job.sync->report()});
        active.push_back(&job);
      } else {
        End(&job);
      }
    }
    while (!active.empty()) Look(&active, &progress);
  }

  void Look(std::list<LogJob*>* active, ProgressBar* progress) {
    for (auto job = active->begin(); job != active->end();) {
      const absl::StatusOr<bool> over = (*job)->sync->Poll();
      (*job)->errors->PrintErrors({(*job)->sync->report()}, progress);
      if (over.ok() && !*over && sync_interrupted == 0) {
        ++job;
        continue;
      }
      (*job)->status = over.status();
      End(*job);
      job = active->erase(job);
    }
    Show(*active, progress);
    if (!active->empty()) absl::SleepFor(kLogPoll);
  }

  void End(LogJob* job) {
    job->status.Update(job->sync->End(&job->notes));
    done_bytes_ += static_cast<double>(job->sync->bytes());
    if (job->sync->HasReport()) done_rows_ += job->sync->report().run.rows;
  }

  void Show(const std::list<LogJob*>& active, ProgressBar* progress) {
    double done = done_bytes_ + kImportShare * importing_bytes_;
    uint64_t rows = done_rows_;
    for (const LogJob* job : active) {
      const double part = job->sync->Progress();
      done += static_cast<double>(job->sync->bytes()) * (kImportShare + (1 - kImportShare) * part);
      rows += static_cast<uint64_t>(part * static_cast<double>(job->sync->report().run.rows));
    }
    double all = 0;
    for (const LogJob& job : jobs_) {
      if (!job.skipped) all += static_cast<double>(job.sync->bytes());
    }
    const absl::Duration spent = SteadyNow() - began_;
    const double seconds = std::max(absl::ToDoubleSeconds(spent), 1e-3);
    std::string figures = absl::StrCat(
        rows, " rows, ", static_cast<uint64_t>(static_cast<double>(rows) / seconds), "/s");
    if (done > 0 && done < all) {
      absl::StrAppend(&figures, ", ", DurationText(spent * ((all - done) / done)), " left");
    }
    progress->Update(static_cast<uint64_t>(done), static_cast<uint64_t>(std::max(all, 1.0)),
                     figures);
  }

  absl::Status Conclude() const {
    const LogSyncReport report(jobs_, unreadable_, flags_.dry_run);
    RETURN_IF_ERROR(
        WriteOutput(flags_.json ? report.Json() : report.Table(Terminal::Of(STDOUT_FILENO))));
    RETURN_IF_ERROR(FlushOutput());
    report.Explain();
    if (sync_interrupted != 0) {
      return absl::CancelledError(
          "interrupted before everything was delivered; the same command continues");
    }
    return report.Result();
  }

  const Globals& globals_;
  const std::string root_;             // of the state directories of the runs
  const std::string credentials_dir_;  // for keys
  const LogSyncFlags& flags_;
  const absl::Time began_ = SteadyNow();
  std::vector<LogJob> jobs_;
  std::vector<UnreadableLog> unreadable_;
  double done_bytes_ = 0;
  double importing_bytes_ = 0;  // of the log that is being imported
  uint64_t done_rows_ = 0;
};

}  // namespace

bool IsLogPath(const std::string& word) {
  std::error_code error;
  return word.find('/') != std::string::npos || std::filesystem::exists(word, error);
}

absl::Status SyncLogs(const Globals& globals, const LogSyncFlags& flags) {
  ASSIGN_OR_RETURN(const std::string state_dir, globals.StateDir());
  struct sigaction action {};
  action.sa_handler = [](int) { sync_interrupted = 1; };
  action.sa_flags = SA_RESETHAND;  // a second one ends the command at once
  sigaction(SIGINT, &action, nullptr);
  return LogsSync(globals, state_dir, flags).Run();
}

}  // namespace ranklog::cli
