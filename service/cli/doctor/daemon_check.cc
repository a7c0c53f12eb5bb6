#include "service/cli/doctor/daemon_check.h"

#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ranklog/v1/places.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/daemon_log_place.h"
#include "service/cli/node/daemon_status.h"
#include "service/storage/directories/state_lock.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {

Finding CheckDaemon(const Globals& globals, const std::string& dir) {
  const int64_t pid = storage::StateLock::Holder(dir);
  if (pid == 0) {
    Finding finding{"daemon", {{"running", false}}, "not running", ""};
    if (const auto log = FindDaemonLog(globals.address); log.has_value()) {
      finding.data["log"] = log->path;
      finding.data["last_words"] = log->last_words;
      absl::StrAppend(&finding.text, "; its log is ", log->path);
      if (!log->last_words.empty()) {
        finding.advice = "it could not start: " + Printable(log->last_words);
      }
    }
    return finding;
  }
  Finding finding{"daemon",
                  {{"running", true}, {"pid", pid}},
                  absl::StrCat("pid ", pid, " holds the directory"),
                  ""};
  const auto daemon = FindDaemon(dir, globals.address);
  if (daemon) {
    finding.data["version"] = daemon->version;
    finding.data["started_by"] = daemon->started_by;
    finding.data["address"] = daemon->address;
    absl::StrAppend(&finding.text, ", version ", daemon->version, ", started by ",
                    daemon->started_by, ", answers at ", daemon->address);
    if (const auto log = FindDaemonLog(daemon->address);
        log.has_value() && daemon->logs_to_file()) {
      finding.data["log"] = log->path;
      absl::StrAppend(&finding.text, ", logs to ", log->path);
    }
    if (daemon->version != RANKLOG_VERSION) {
      finding.advice = "this program has version " RANKLOG_VERSION
                       "; restart the daemon, or use the program that came with it";
    }
    if (const std::string trouble = StoreProblem(*daemon); !trouble.empty()) {
      finding.advice = trouble;
    }
  } else if (const std::string silent = TimedOutAddress(pid, globals.address); !silent.empty()) {
    finding.data["address"] = silent;
    finding.advice = TimeoutText(pid, silent);
  } else if (const std::string wrong = WrongAddressText(dir); !wrong.empty()) {
    finding.advice = wrong;
  } else if (globals.address.empty()) {
    absl::StrAppend(&finding.text, "; it listens ",
                    NamedAddress("").empty() ? "at none" : "neither at RANKLOG_ADDRESS nor at one",
                    " of the usual addresses; give its address with --address");
  } else {
    finding.advice = absl::StrCat("no answer at ", globals.address,
                                  ": check the address, and whether the daemon is stopped");
  }
  return finding;
}

absl::optional<Finding> CheckOtherDaemon(const Globals& globals, const std::string& dir) {
  if (const auto daemon = FindOtherDaemon(dir, globals.address)) {
    return Finding{
        "elsewhere",
        {{"pid", daemon->pid}, {"address", daemon->address}, {"state_dir", daemon->state_dir}},
        absl::StrCat("pid ", daemon->pid, " answers at ", daemon->address, " and keeps ",
                     Printable(daemon->state_dir)),
        absl::StrCat("ranks send their rows to that daemon, so they are not in ", dir,
                     "; run: ranklog doctor --address ", daemon->address)};
  }
  for (const std::string& address : AddressesOfRanks(globals.address)) {
    if (!TimedOut(address)) continue;
    return Finding{"elsewhere",
                   {{"pid", TimedOutPid(address)}, {"address", address}},
                   absl::StrCat("a process listens at ", address),
                   TimeoutText(TimedOutPid(address), address)};
  }
  return absl::nullopt;
}

Finding ReportNoDaemon(const std::string& address, const absl::Status& why) {
  Finding finding{"daemon", {{"running", false}}, Printable(std::string(why.message())), ""};
  finding.advice = TimedOut(address)
                       ? TimeoutText(TimedOutPid(address), address)
                       : "to check a state directory, run: ranklog doctor --state-dir DIR";
  return finding;
}

Finding CheckSocket(const Globals& globals) {
  const std::string named = NamedAddress(globals.address);
  const std::filesystem::path path = SocketPath(globals.address);
  Finding finding{"socket", {{"path", path.string()}}, Printable(path.string()), ""};
  struct stat info {};
  const bool exists = lstat(path.c_str(), &info) == 0, listens = exists && S_ISSOCK(info.st_mode);
  finding.data["present"] = listens;
  if (!listens) {
    absl::StrAppend(&finding.text, exists ? " is not a socket" : " does not exist",
                    ": no daemon listens");
  }
  if (!named.empty() && !absl::StartsWith(named, "unix:/")) {
    finding.advice = "not an address; use unix:/PATH";
  } else if (path.string().size() > v1::kMaxSocketPath) {
    finding.advice = absl::StrCat("its path has more than ", v1::kMaxSocketPath,
                                  " bytes; choose a shorter one for RANKLOG_ADDRESS");
  } else if (exists && !listens) {
    finding.advice = "remove this file, or choose another path with RANKLOG_ADDRESS";
  } else {
    finding.advice = Printable(v1::UnusableReason({path.parent_path().string(), /*create=*/true},
                                                  077, " with RANKLOG_ADDRESS"));
  }
  return finding;
}

absl::optional<Finding> ListClients(const std::string& dir) {
  const auto reader = storage::StoreReader::Open(dir);
  if (!reader.ok()) return absl::nullopt;
  const auto streams = (*reader)->LiveStreams();
  if (!streams.ok() || streams->empty()) return absl::nullopt;
  std::set<std::string> versions;
  for (const model::Stream& stream : *streams) versions.insert(stream.identity.client_version);
  return Finding{
      "ranks",
      {{"streams", streams->size()}, {"versions", versions}},
      absl::StrCat(Counted(streams->size(), "stream"), " of libranklog ",
                   Printable(absl::StrJoin(versions, ", ")), "; this is ", RANKLOG_VERSION),
      ""};
}

}  // namespace ranklog::cli
