// ranklog logs: what the ranks of a run printed.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/utf8.h"
#include "service/cli/command.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/terminal.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr size_t kLinesOfRead = 10'000;
constexpr absl::Duration kNewLines = absl::Milliseconds(200);
constexpr absl::Duration kSettles = absl::Seconds(2);  // then a line is probably whole

constexpr char kLogsFooter[] = R"(
The lines come from `ranklog exec` or from Run::CaptureConsole() in the program; the last 100,000 of each rank are kept.
Colours are shown in a terminal. Other control characters and escape sequences are left out, except in --json.

Examples:
  ranklog logs latest
  ranklog logs latest --rank 3 -n 50
  ranklog logs latest --follow
  ranklog logs latest --stderr --times
  ranklog logs latest --json | jq -r 'select(.stderr) | .text')";

struct LogsFlags {
  RunArgument run;
  std::string rank;
  uint64_t lines = 0;
  bool follow = false;
  bool stderr_only = false;
  bool times = false;
  bool json = false;
};

// The text without control characters but tabs, and without the escape sequences that begin with
// them: a program may print any data, which must not command the terminal of a person who looks at
// it later. `colours`: keeps those that set colours.
std::string Harmless(const std::string& text, bool colours) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0x1B && next == '[') {
      size_t end = i + 2;
      while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
      const std::string parameters = text.substr(i + 2, end - i - 2);
      const bool sets_colours = end < text.size() && text[end] == 'm' &&
                                parameters.find_first_not_of("0123456789;:") == std::string::npos;
      if (colours && sets_colours) plain += text.substr(i, end + 1 - i);
      i = end;
    } else if (byte == 0x1B && next != 0 &&
               std::string("]PX^_").find(text[i + 1]) != std::string::npos) {
      // A string for the terminal, up to BEL or ESC \.
      while (i < text.size() && text[i] != 0x07 && (text[i] != 0x5C || text[i - 1] != 0x1B)) ++i;
    } else if (byte == 0x1B) {
      ++i;
    } else if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F
      ++i;
    } else if ((byte >= ' ' && byte != 0x7F) || byte == '\t') {
      plain += text[i];
    }
  }
  return plain;
}

class Printer {
 public:
  explicit Printer(const LogsFlags& flags) : flags_(flags) {}

  absl::Status Print(const model::ConsoleLine& line) const {
    if (flags_.stderr_only && !line.error) return absl::OkStatus();
    if (flags_.json) {
      return WriteOutput(LineJson({{"line", line.number},
                                   {"timestamp", static_cast<double>(line.time_us) / 1e6},
                                   {"stderr", line.error},
                                   {"text", line.text}}));
    }
    std::string text;
    if (flags_.times) {
      text =
          absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%E3S", absl::FromUnixMicros(line.time_us),
                                        absl::LocalTimeZone()),
                       line.error ? " E " : "   ");
    }
    const std::string harmless = Harmless(line.text, isatty(STDOUT_FILENO) == 1);
    text += harmless;
    if (harmless.find('\x1b') != std::string::npos) text += "\x1b[0m";
    text += '\n';
    return WriteOutput(text);
  }

 private:
  const LogsFlags& flags_;
};

absl::StatusOr<uint32_t> ChooseRank(const LogsFlags& flags, const model::Run& run,
                                    const std::map<uint32_t, storage::ConsoleExtent>& ranks) {
  uint32_t rank = run.primary_rank;
  if (!flags.rank.empty()) {
    if (!absl::SimpleAtoi(flags.rank, &rank)) return WrongUsage("--rank needs a number");
  } else if (ranks.count(rank) == 0 && !ranks.empty()) {
    rank = ranks.begin()->first;
  }
  if (ranks.count(rank) > 0 || flags.follow) return rank;
  if (ranks.empty()) {
    return absl::NotFoundError(
        absl::StrCat("run ", run.run_id,
                     " has no console: start the program by `ranklog exec -- COMMAND`, or call "
                     "Run::CaptureConsole() in it"));
  }
  std::vector<uint32_t> known;
  for (const auto& [each, extent] : ranks) known.push_back(each);
  return absl::NotFoundError(
      absl::StrCat("rank ", rank, " of run ", run.run_id,
                   " has no console here; ranks with one: ", absl::StrJoin(known, ", ")));
}

absl::Status Logs(const Globals& globals, const LogsFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(model::Run run, flags.run.Find(globals, *reader));
  ASSIGN_OR_RETURN(auto ranks, reader->ConsoleRanks(run.id));
  ASSIGN_OR_RETURN(const uint32_t rank, ChooseRank(flags, run, ranks));
  const Printer printer(flags);
  const storage::ConsoleExtent extent = ranks[rank];
  uint64_t next = extent.from;
  if (flags.lines > 0) next = std::max(next, extent.end - std::min(extent.end, flags.lines));
  // The last line of a live run may still change.
  std::string last;
  absl::Time last_at = absl::InfiniteFuture();
  while (true) {
    ASSIGN_OR_RETURN(run, reader->GetRun(run.id));
    const bool live = flags.follow && run.state == model::RunState::kRunning;
    ASSIGN_OR_RETURN(const std::vector<model::StoredConsoleLine> lines,
                     reader->ConsoleLines(run.id, rank, next, kLinesOfRead));
    for (size_t i = 0; i < lines.size(); ++i) {
      const model::ConsoleLine& line = lines[i].line;
      if (live && i + 1 == lines.size()) {
        if (std::exchange(last, line.text) != line.text || last_at == absl::InfiniteFuture()) {
          last_at = absl::Now();
        }
        if (absl::Now() < last_at + kSettles) break;
      }
      RETURN_IF_ERROR(printer.Print(line));
      next = line.number + 1;
      last_at = absl::InfiniteFuture();
    }
    RETURN_IF_ERROR(FlushOutput());
    if (lines.size() == kLinesOfRead) continue;
    if (!live) return absl::OkStatus();
    absl::SleepFor(kNewLines);
  }
}

}  // namespace

void AddLogs(Program& program) {
  auto [options, flags] = program.Add("logs", "show what a run's ranks printed", kLogsFooter, Logs);
  flags.run.AddTo(options);
  options.Add("--rank", &flags.rank, "the rank; default: the first one of the run",
              {.type = "N", .check = CheckCount});
  options.Add("-n,--lines", &flags.lines, "only the last N lines",
              {.type = "N", .check = CheckPositive});
  options.Add("-f,--follow", &flags.follow, "wait for new lines until the run has ended");
  options.Add("--stderr", &flags.stderr_only, "only what was printed to stderr");
  options.Add("--times", &flags.times, "put the time before each line, and E for stderr");
  options.Add("--json", &flags.json, "print an object per line");
}

}  // namespace ranklog::cli
