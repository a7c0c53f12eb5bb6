#include <unistd.h>

#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/byte_size.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/command.h"
#include "service/cli/node/daemon_status.h"
#include "service/cli/node/run_remover.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/progress_bar.h"
#include "service/cli/output/table.h"
#include "service/cli/output/terminal.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr char kPruneFooter[] = R"(
Does at once what the daemon does gradually: removes fully delivered runs from this node's store, those that ended
longer ago than --keep-for, and the oldest ones while the store uses more than --keep-bytes. Runs that are
undelivered, local only, or have late or refused rows are kept, whatever the limits (`ranklog rm` removes them).
Data at a tracker is not removed. The default limits are those of the running daemon.

Asks first on a terminal; otherwise --yes or --dry-run is required.

Examples:
  ranklog prune --dry-run
  ranklog prune --keep-for 24h
  ranklog prune --keep-for 0s --yes       # all that is delivered
  ranklog prune --keep-bytes 1GiB --dry-run --json | jq 'map(.bytes) | add')";

constexpr char kForever[] = "forever";
constexpr char kUnlimited[] = "unlimited";

std::string CheckKeepFor(const std::string& text) {
  absl::Duration duration;
  const bool good =
      text == kForever || (absl::ParseDuration(text, &duration) &&
                           duration >= absl::ZeroDuration() && duration < absl::InfiniteDuration());
  return good ? "" : "not a duration, such as 24h, or forever";
}

std::string CheckKeepBytes(const std::string& text) {
  int64_t bytes = 0;
  const bool good = text == kUnlimited || ParseBytes(text, &bytes);
  return good ? "" : "not a size, such as 500MiB, or unlimited";
}

struct PruneFlags {
  std::string keep_for;
  std::string keep_bytes;
  bool dry_run = false;
  bool yes = false;
  bool json = false;
};

struct Going {
  model::Run run;
  uint64_t bytes = 0;
};

absl::StatusOr<storage::KeepLimits> LimitsOf(const Globals& globals, const std::string& dir,
                                             const PruneFlags& flags) {
  storage::KeepLimits limits;
  if (const auto daemon = FindDaemon(dir, globals.address)) {
    limits.keep_for = daemon->keep_for.value_or(absl::InfiniteDuration());
    limits.keep_bytes = daemon->keep_bytes.value_or(storage::KeepLimits::kUnlimited);
  } else if ((flags.keep_for.empty() || flags.keep_bytes.empty()) &&
             IsDaemon(storage::StateLock::Holder(dir))) {
    return FindHolder(dir, globals.address).status();  // its limits are unknown
  }
  if (flags.keep_for == kForever) {
    limits.keep_for = absl::InfiniteDuration();
  } else if (!flags.keep_for.empty()) {
    // Cannot fail: the option's check accepted it.
    absl::ParseDuration(flags.keep_for, &limits.keep_for);
  }
  if (flags.keep_bytes == kUnlimited) {
    limits.keep_bytes = storage::KeepLimits::kUnlimited;
  } else if (!flags.keep_bytes.empty()) {
    ParseBytes(flags.keep_bytes, &limits.keep_bytes);
  }
  return limits;
}

// The runs to remove; the run that ended first comes first.
absl::StatusOr<std::vector<Going>> Choose(storage::StoreReader& reader,
                                          const storage::KeepLimits& limits) {
  const absl::Time now = absl::Now();
  ASSIGN_OR_RETURN(int64_t used, reader.UsedBytes());
  ASSIGN_OR_RETURN(const std::vector<storage::RemovableRun> removable,
                   reader.Removable(absl::ToUnixMicros(now - storage::kLeastAge)));
  std::vector<Going> going;
  ProgressBar progress("measure the runs", /*lines=*/false);
  for (const storage::RemovableRun& run : removable) {
    if (!storage::MustGo(run, used, limits, now)) break;  // later runs may stay too
    Going& one = going.emplace_back();
    ASSIGN_OR_RETURN(one.run, reader.GetRun(run.id));
    ASSIGN_OR_RETURN(one.bytes, reader.BytesOfRun(run.id));
    used -= static_cast<int64_t>(one.bytes);
    progress.Update(going.size(), removable.size());
  }
  return going;
}

std::string GoingText(const std::vector<Going>& going, const Terminal& terminal) {
  Table table({"RUN", "NAME", "ENDED", "ROWS", "SIZE"}, {{"NAME"}});
  for (const Going& one : going) {
    table.AddRow({Printable(absl::StrCat(one.run.project, ":", one.run.run_id)),
                  Printable(one.run.name), TimeText(one.run.ended_us), absl::StrCat(one.run.rows),
                  BytesText(static_cast<int64_t>(one.bytes))});
  }
  return table.ToString(terminal);
}

model::Json GoingJson(const std::vector<Going>& going) {
  model::Json list = model::Json::array();
  for (const Going& one : going) {
    list.push_back({{"run_id", one.run.run_id},
                    {"project", one.run.project},
                    {"name", one.run.name},
                    {"rows", one.run.rows},
                    {"bytes", one.bytes},
                    {"ended", static_cast<double>(one.run.ended_us) / 1e6}});
  }
  return list;
}

std::string SumText(const std::vector<Going>& going) {
  uint64_t bytes = 0;
  for (const Going& one : going) bytes += one.bytes;
  return absl::StrCat(Counted(going.size(), "run"), ", ", BytesText(static_cast<int64_t>(bytes)));
}

bool AskToPrune(const std::vector<Going>& going) {
  std::cerr << GoingText(going, Terminal::Of(STDERR_FILENO)) << "Remove " << SumText(going)
            << " from this node? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  const std::string word = absl::AsciiStrToLower(absl::StripAsciiWhitespace(answer));
  return word == "y" || word == "yes";
}

// Removes the runs. Drops runs from `going` that stay because they run again or are being delivered
// again, and runs that are gone already.
absl::Status RemoveAll(const Globals& globals, const std::string& dir, storage::StoreReader& reader,
                       std::vector<Going>* going) {
  ASSIGN_OR_RETURN(const std::unique_ptr<RunRemover> remover,
                   RunRemover::Open(dir, globals.address));
  std::vector<Going> gone;
  ProgressBar progress("remove", /*lines=*/false);
  absl::Status status;
  for (const Going& one : *going) {
    std::set<uint64_t> incarnations;
    const auto streams = reader.Streams(one.run.id);
    if (streams.ok()) {
      for (const model::Stream& stream : *streams) incarnations.insert(stream.key.incarnation);
    }
    status = remover->Remove(one.run.id, storage::Removal::kDelivered);
    if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) continue;
    if (!status.ok()) break;
    RemoveRings(dir, incarnations);
    gone.push_back(one);
    progress.Update(gone.size(), going->size());
  }
  *going = std::move(gone);
  if (absl::IsFailedPrecondition(status) || absl::IsNotFound(status)) status = absl::OkStatus();
  RETURN_IF_ERROR(status);
  return remover->Sweep();
}

absl::Status Prune(const Globals& globals, const PruneFlags& flags) {
  if (!flags.yes && !flags.dry_run && isatty(STDIN_FILENO) != 1) {
    return WrongUsage("--yes or --dry-run is required if stdin is not a terminal");
  }
  ASSIGN_OR_RETURN(const std::string dir, globals.StateDir());
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const storage::KeepLimits limits, LimitsOf(globals, dir, flags));
  ASSIGN_OR_RETURN(std::vector<Going> going, Choose(*reader, limits));
  absl::Status status;
  if (!flags.dry_run && !going.empty()) {
    if (!flags.yes && !AskToPrune(going)) return absl::CancelledError("nothing was removed");
    status = RemoveAll(globals, dir, *reader, &going);
  }
  if (flags.json) {
    std::cout << PrettyJson(GoingJson(going));
  } else {
    if (flags.dry_run && !going.empty()) {
      std::cout << GoingText(going, Terminal::Of(STDOUT_FILENO));
    }
    std::cout << (flags.dry_run ? "would remove " : "removed ") << SumText(going) << "\n";
  }
  return status;
}

}  // namespace

void AddPrune(Program& program) {
  auto [options, flags] =
      program.Add("prune", "remove delivered runs that need not be kept", kPruneFooter, Prune);
  options.Add("--keep-for", &flags.keep_for,
              "keep runs that ended within this time; forever: no time limit",
              {.type = "DURATION", .check = CheckKeepFor});
  options.Add("--keep-bytes", &flags.keep_bytes,
              "if the store is larger, remove the oldest runs; unlimited: no size limit",
              {.type = "SIZE", .check = CheckKeepBytes});
  options.Add("--dry-run", &flags.dry_run, "only show which runs would be removed");
  options.Add("--yes", &flags.yes, "do not ask");
  options.Add("--json", &flags.json, "print an array of the removed runs, for programs");
}

}  // namespace ranklog::cli
