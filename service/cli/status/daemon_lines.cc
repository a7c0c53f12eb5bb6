#include "service/cli/status/daemon_lines.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_status.h"
#include "service/query/run_report.h"

namespace ranklog::cli {
namespace {

// How long the daemon keeps delivered runs; empty without a daemon.
std::string KeepText(const Overview& overview) {
  if (!overview.daemon) return "";
  const DaemonStatus& daemon = *overview.daemon;
  std::string text = "delivered runs, ";
  if (!daemon.keep_for && !daemon.keep_bytes) return text + "forever";
  if (daemon.keep_for) absl::StrAppend(&text, "for ", DurationText(*daemon.keep_for));
  if (daemon.keep_for && daemon.keep_bytes) text += " and ";
  if (daemon.keep_bytes) absl::StrAppend(&text, "up to ", BytesText(*daemon.keep_bytes));
  const auto removed = daemon.counters.find("store.removed_runs");
  if (removed != daemon.counters.end() && removed->second > 0) {
    absl::StrAppend(&text, "; ", removed->second, " removed since it started");
  }
  return text;
}

// Clients that the daemon has refused since its start, by reason; empty if there are none.
std::string RefusedText(const Overview& overview) {
  constexpr absl::string_view kUnreadable = "ingest.left_rings";
  constexpr std::pair<absl::string_view, const char*> kKinds[] = {
      {"accept.refused_user", "of other users"},
      {"accept.refused_protocol", "with another protocol"},
      {"ingest.refused_versions", "of another version"},
      {kUnreadable, "with an unreadable spool"},
      {"ingest.refused_messages", "malformed"},
      {"ingest.refused_shapes", "with too many keys"},
      {"ingest.refused_streams", "above the limit of streams"}};
  std::vector<std::string> parts;
  for (const auto& [name, kind] : kKinds) {
    if (!overview.daemon) break;
    const auto counter = overview.daemon->counters.find(std::string(name));
    if (counter == overview.daemon->counters.end() || counter->second == 0) continue;
    parts.push_back(absl::StrCat(counter->second, " ", kind));
    if (name == kUnreadable) {
      absl::StrAppend(&parts.back(), " (`", overview.globals.Command("doctor"), "`)");
    }
  }
  return absl::StrJoin(parts, ", ");
}

// The runs whose rows go to rank 0's node, and the nodes whose rows come here.
std::string PeerLines(const Overview& overview, const DaemonStatus::Peer& peer,
                      const Terminal& terminal) {
  static constexpr size_t kShown = 8;  // nodes by name
  constexpr double kSilentAfter = 15;  // seconds; a daemon is heard of every 5 s
  std::string text;
  // `none` as the key's file means that the user does not want it.
  if (peer.fingerprint.empty() && peer.error.empty() && !peer.key_file.empty()) {
    for (const query::RunReport* report : LiveRuns(overview)) {
      if (!report->run.local_only || !report->run.primary_chosen) continue;
      absl::StrAppend(&text, "joins   ", Printable(report->run.run_id),
                      " to nothing: there is no peer key; run `ranklog peer-key`\n");
    }
  }
  for (const DaemonStatus::Peer::Link& link : peer.links) {
    absl::StrAppend(&text, "joins   ", Printable(RunIdOf(overview, link.run)), " to rank 0 at ",
                    link.home.empty() ? "?" : Printable(link.home), ", ",
                    Counted(link.waiting_rows, "row"), " to send");
    if (!link.error.empty()) {
      absl::StrAppend(&text, ": ", terminal.Red(Printable(link.error)));
    }
    text += "\n";
  }
  for (const query::RunReport* report : LiveRuns(overview)) {
    const std::string ranks = peer.address.empty() ? "" : query::HeardText(*report);
    if (ranks.empty()) continue;
    absl::StrAppend(&text, "ranks   ", Printable(report->run.run_id), ": ", ranks, "\n");
  }
  std::vector<std::string> heard;
  std::vector<std::string> silent;
  for (const DaemonStatus::Peer::Node& node : peer.nodes) {
    if (node.streams == 0) continue;
    const bool is_silent = node.silent_seconds > kSilentAfter;
    std::string name = Printable(node.name);
    if (is_silent) {
      absl::StrAppend(&name, " (for ", DurationText(absl::Seconds(node.silent_seconds)), ")");
    }
    (is_silent ? silent : heard).push_back(std::move(name));
  }
  const auto list = [](std::vector<std::string> names) {
    const size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    return absl::StrCat(absl::StrJoin(names, ", "),
                        more > 0 ? absl::StrCat(" and ", more, " more") : "");
  };
  if (!heard.empty()) {
    absl::StrAppend(&text, "nodes   ", heard.size(), " send rows here: ", list(heard), "\n");
  }
  if (!silent.empty()) {
    absl::StrAppend(&text, "nodes   ",
                    terminal.Red(absl::StrCat(silent.size(), " not heard of: ", list(silent))),
                    "\n");
  }
  return text;
}

}  // namespace

std::string DaemonText(const Overview& overview, const Terminal& terminal) {
  const std::string wrong_address =
      overview.wrong_address.empty()
          ? ""
          : absl::StrCat("\n        ", terminal.Red(overview.wrong_address));
  if (overview.daemon_pid == 0) {
    std::string text =
        absl::StrCat(terminal.Dim("not running"), "; stored rows are delivered when one runs");
    if (overview.other) {
      absl::StrAppend(&text, "\n        ", terminal.Red(OtherDaemonText(*overview.other)));
    }
    if (overview.log) {
      const std::string& words = overview.log->last_words;
      if (!words.empty()) absl::StrAppend(&text, "\n        ", terminal.Red(Printable(words)));
      absl::StrAppend(&text, "\n        its log is ", overview.log->path);
    }
    return text + wrong_address;
  }
  std::string text = absl::StrCat(terminal.Green("running"), ", pid ", overview.daemon_pid);
  if (overview.daemon) {
    const DaemonStatus& daemon = *overview.daemon;
    absl::StrAppend(&text, ", version ", daemon.version, ", up ", DurationText(Uptime(daemon)),
                    ", started by ", daemon.started_by, ", at ", daemon.address);
    if (daemon.logs_to_file() && overview.log) {
      absl::StrAppend(&text, ", log ", overview.log->path);
    }
  } else if (!overview.silent_at.empty()) {
    absl::StrAppend(&text, ", but ", terminal.Red(SilenceText(overview)));
  }
  return text + wrong_address;
}

std::string DaemonLines(const Overview& overview, const Terminal& terminal) {
  std::string text;
  if (const std::string keep = KeepText(overview); !keep.empty()) {
    absl::StrAppend(&text, "keeps   ", keep, "\n");
  }
  if (overview.daemon && !overview.daemon->metrics_url.empty()) {
    absl::StrAppend(&text, "metrics ", overview.daemon->metrics_url, "\n");
  }
  if (overview.daemon && overview.daemon->peer) {
    const DaemonStatus::Peer& peer = *overview.daemon->peer;
    if (!peer.error.empty()) {
      absl::StrAppend(&text, "peers   ", terminal.Red(Printable(peer.error)), "\n");
    } else if (!peer.address.empty()) {
      absl::StrAppend(&text, "peers   daemons of other nodes reach it at ", Printable(peer.address),
                      "\n");
    }
    text += PeerLines(overview, peer, terminal);
  }
  if (const std::string refused = RefusedText(overview); !refused.empty()) {
    absl::StrAppend(&text, "clients ", terminal.Red(refused + " refused"), "\n");
  }
  if (const std::string trouble = StoreTroubleOf(overview); !trouble.empty()) {
    absl::StrAppend(&text, "store   ", terminal.Red(Printable(trouble)), "\n");
  }
  return text;
}

}  // namespace ranklog::cli
