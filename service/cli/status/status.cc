#include <unistd.h>

#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/terminal.h"
#include "service/cli/status/overview.h"
#include "service/cli/status/status_json.h"
#include "service/cli/status/status_page.h"

namespace ranklog::cli {
namespace {

constexpr char kStatusFooter[] = R"(
Rows are counted per destination: queued rows wait to be delivered, refused rows are dead letters
(see `ranklog dead RUN`). Uploads are the files of artifacts and of runs that wait or are being sent (see
`ranklog artifacts RUN`). Late rows of a rank came after their step was closed: they are stored, but not in the run.
Lost rows were refused by Log(), or lost with an earlier store; they are counted by reason. The last success and the
last failure are those since the daemon's start.

--watch redraws the page at each --interval, until Ctrl-C, as far as it fits into the terminal. If stdout is not a
terminal, it prints one line of KEY=VALUE pairs each time, or an object with --json.

--check is for monitoring. Exit code 0: no problem. 1: a problem, described on stderr: no daemon is running, or none
answers; rows cannot be stored; the disk is full, or will be within a day; rows were lost or refused; rows of a run
cannot be aggregated; a delivery was set apart; a damaged store or ring was set aside; a ring could not be read; a
start was refused; rows wait for a daemon at another address; rows have waited for rank 0's node for more than a
minute; a run waits for a person, for example because of its key
or its address. The problem then says what to do, after "to continue". Other tracker errors do not count, because they
end by themselves. 2: wrong usage.
Without --check the exit code is 0 if the store can be read, else 1.

Examples:
  ranklog status
  ranklog status --watch
  ranklog status --watch --interval 10s >> status.log
  ranklog status --check >/dev/null || mail -s "ranklog: $HOSTNAME" me
  ranklog status --address unix:/run/ranklog/1000/ranklogd.sock
  ranklog status --json | jq .rows.queued)";

struct StatusFlags {
  bool json = false;
  bool check = false;
  bool watch = false;
  std::string interval;
  int times = 0;  // 0: until Ctrl-C
};

constexpr absl::Duration kInterval = absl::Seconds(2);  // same as watch(1)

// Draws over the old page without flicker: each line erases the rest of the old line.
std::string Redrawn(const std::string& page) {
  return absl::StrCat("\033[H", absl::StrReplaceAll(page, {{"\n", "\033[K\n"}}), "\033[J");
}

bool CanRedraw(const Terminal& terminal) {
  return terminal.interactive && EnvironmentVariable("TERM") != "dumb";
}

void Show(const Overview& overview, const StatusFlags& flags) {
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  const bool page = !flags.watch || CanRedraw(terminal);
  if (flags.json) {
    std::cout << (flags.watch ? LineJson(OverviewJson(overview))
                              : PrettyJson(OverviewJson(overview)));
  } else if (!page) {
    std::cout << OverviewLine(overview);
  } else {
    const std::string text = OverviewText(overview, terminal);
    std::cout << (flags.watch ? Redrawn(CutPage(text, terminal.width, terminal.height)) : text);
  }
}

absl::Status ShowStatus(const Globals& globals, const StatusFlags& flags) {
  if (!flags.watch && (!flags.interval.empty() || flags.times != 0)) {
    return WrongUsage("--interval and --times need --watch");
  }
  if (flags.watch && flags.check) return WrongUsage("--check and --watch exclude each other");
  absl::Duration interval = kInterval;
  // Cannot fail: the option's check accepted it.
  if (!flags.interval.empty()) absl::ParseDuration(flags.interval, &interval);
  for (int shown = 0;; absl::SleepFor(interval)) {
    ASSIGN_OR_RETURN(const Overview overview, TakeOverview(globals, /*await_ends=*/!flags.watch));
    Show(overview, flags);
    RETURN_IF_ERROR(FlushOutput());
    if (flags.watch && ++shown != flags.times) continue;
    const std::vector<std::string> problems = ProblemsOf(overview);
    if (!flags.check || problems.empty()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrJoin(problems, "; "));
  }
}

}  // namespace

void AddStatus(Program& program) {
  auto [options, flags] = program.Add(
      "status", "show the daemon, the store, and waiting deliveries", kStatusFooter, ShowStatus);
  options.Add("--json", &flags.json, "print an object, for programs");
  options.Add("--check", &flags.check, "exit code 1 if there is a problem, for monitoring");
  options.Add("--watch", &flags.watch, "refresh until Ctrl-C");
  options.Add("--interval", &flags.interval, "time between updates; default 2s",
              {.type = "DURATION", .check = CheckDuration});
  options.Add("--times", &flags.times, "stop after this number of updates",
              {.type = "N", .least = 1, .most = 1000000});
}

}  // namespace ranklog::cli
