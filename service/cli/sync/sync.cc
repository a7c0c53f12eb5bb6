#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/sync/sync_logs.h"
#include "service/cli/sync/sync_runs.h"
#include "service/deliver/destination.h"

namespace ranklog::cli {
namespace {

constexpr char kSyncFooter[] = R"(
Without RUN, delivers every run that is not fully delivered. If a daemon is running, it delivers and this command
waits. Without a daemon, this command reads the spools of ended ranks and delivers by itself. If a rank starts
meanwhile, its daemon takes over. Interrupting this command loses nothing: the next sync continues.
The progress also counts the files of artifacts and of runs that are uploaded, and their bytes.

If this node has no key for the server of a run, that run waits. The other runs are delivered.

A run is set apart if its delivery crashed Ranklog twice in a row. It is tried once more if RUN names it.

With --wait, the command also waits until the daemon's running runs have ended, however long that takes.

PATH delivers the runs of W&B's SDK that are stored in .wandb logs, once: a log is imported into STATE_DIR/imported,
which remembers what its server has. Its file *.wandb.synced then marks it, and the next sync skips it. Of a
directory of run directories, those of online runs (run-*) are left out. The parts of a resumed run are joined.

A run whose only destination is `local` stays on this node, unless --to adds a destination. That is an error only if
RUN names it.

Exit code 0: all rows are delivered, except those of local runs that were not named, and the last rows of running
ranks. 1: rows are left; each run is listed with its number of rows and the reason. Also 1 if rows are in a spool that
no daemon reads: that of a running rank without a daemon, or one that no daemon here can take, which is named with what
to do. Also 1 if stored rows wait for the end of a rank, which only a daemon can find out. If RUN is given, only rows
of these runs count.

Examples:
  ranklog sync
  ranklog sync latest --to wandb
  ranklog sync latest --wait                     as the last command of a job
  ranklog sync gpt:abc123 --timeout 10m
  ranklog sync gpt:abc123 --base-url https://wandb.example.com
  ranklog sync gpt:abc123 --set MLFLOW_EXPERIMENT_ID=7
  ranklog sync gpt:abc123 --to offline           into ./wandb, for `wandb sync`
  ranklog sync wandb/offline-run-20260102_030405-abc123
  ranklog sync --all --exclude '*-debug*' --dry-run
  ranklog sync /data/runs --as-project gpt --to wandb
  ranklog sync --all --json | jq -r '.[] | select(.result == "failed") | .why')";

struct SyncFlags {
  RunSyncFlags runs;
  LogSyncFlags logs;
  std::string timeout = "2m";
};

// The options that are only for logs.
std::string OptionOfLogs(const LogSyncFlags& logs) {
  if (!logs.include.empty()) return "--include";
  if (!logs.exclude.empty()) return "--exclude";
  if (logs.instead != imports::Target()) return "--as-project, --as-entity or --as-id";
  if (logs.include_synced) return "--include-synced";
  if (logs.dry_run) return "--dry-run";
  if (logs.json) return "--json";
  return logs.live ? "--live" : "";
}

absl::Status RunLogsSync(const Globals& globals, const SyncFlags& flags) {
  LogSyncFlags logs = flags.logs;
  const RunSyncFlags& runs = flags.runs;
  for (const std::string& word : runs.choice.runs) {
    if (!IsLogPath(word)) return WrongUsage(absl::StrCat(word, " is not a path; name runs alone"));
  }
  if (!runs.choice.project.empty()) return WrongUsage("--project is for runs; use --as-project");
  if (runs.wait) return WrongUsage("--wait is for runs; use --live");
  if (!runs.destinations.set.empty()) return WrongUsage("--set is for runs");
  logs.paths = runs.choice.runs;
  logs.to = runs.destinations.to;
  logs.base_url = runs.destinations.base_url;
  absl::ParseDuration(flags.timeout, &logs.timeout);  // cannot fail: the flag's check accepted it
  return SyncLogs(globals, logs);
}

absl::Status RunSync(const Globals& globals, const SyncFlags& flags) {
  RunSyncFlags runs = flags.runs;
  const std::vector<std::string>& words = runs.choice.runs;
  if (flags.logs.all || std::any_of(words.begin(), words.end(), IsLogPath)) {
    return RunLogsSync(globals, flags);
  }
  if (const std::string option = OptionOfLogs(flags.logs); !option.empty()) {
    return WrongUsage(absl::StrCat(option, " needs PATH or --all"));
  }
  if (!runs.destinations.base_url.empty() && words.empty()) {
    return WrongUsage("--base-url needs RUN");
  }
  if (!runs.destinations.set.empty() && words.empty()) return WrongUsage("--set needs RUN");
  if (!runs.choice.slurm_job.empty() && !runs.wait) return WrongUsage("--slurm-job needs --wait");
  absl::ParseDuration(flags.timeout, &runs.timeout);  // cannot fail: the flag's check accepted it
  return SyncRuns(globals, runs);
}

}  // namespace

void AddSync(Program& program) {
  auto [options, flags] = program.Add("sync", "deliver all waiting rows", kSyncFooter, RunSync);
  RunSyncFlags& runs = flags.runs;
  options.Add(
      "RUN", &runs.choice.runs,
      "run (id, name or latest), or PATH: a .wandb log, its directory, or a directory of such");
  options.Add("--project", &runs.choice.project, "only runs of this project", {.type = "NAME"});
  options.Add("--to", &runs.destinations.to, "also deliver to this tracker",
              {.one_of = deliver::DestinationKinds()});
  options.Add(
      "--base-url", &runs.destinations.base_url,
      "correct the address of the server of RUN, or the directory of offline runs, if nothing of "
      "its job is delivered yet",
      {.type = "URL"});
  options.Add(
      "--set", &runs.destinations.set,
      "change a setting of RUN's tracker, such as MLFLOW_EXPERIMENT_ID, under the same condition; "
      "an empty value removes it; may be repeated",
      {.type = "VARIABLE=VALUE"});
  options.Add("--wait", &runs.wait, "also wait until the runs have ended");
  options.Add("--slurm-job", &runs.choice.slurm_job,
              "with --wait: ignore running runs of other Slurm jobs", {.type = "ID"});
  options.Add("--timeout", &flags.timeout, "give up after this time without progress; default 2m",
              {.type = "DURATION", .check = CheckDuration});
  LogSyncFlags& logs = flags.logs;
  options.Add("--all", &logs.all,
              "the run directories in ./wandb and ./.wandb, or those of $WANDB_DIR");
  options.Add("--include", &logs.include, "only run directories with such a name; may be repeated",
              {.type = "GLOB"});
  options.Add("--exclude", &logs.exclude, "not those with such a name; may be repeated",
              {.type = "GLOB"});
  options.Add("--as-project", &logs.instead.project, "another project than the log's",
              {.type = "NAME"});
  options.Add("--as-entity", &logs.instead.entity, "another entity", {.type = "NAME"});
  options.Add("--as-id", &logs.instead.run_id, "another id, for one run", {.type = "ID"});
  options.Add("--include-synced", &logs.include_synced, "also logs that were synced before");
  options.Add("--dry-run", &logs.dry_run, "only print what would be sent");
  options.Add("--json", &logs.json, "print an array of the runs of the logs, for programs");
  options.Add("--live", &logs.live, "follow logs until their programs have ended");
  options.Add("--parallel", &logs.parallel, "the number of runs at a time; default 5",
              {.check = CheckPositive});
}

}  // namespace ranklog::cli
