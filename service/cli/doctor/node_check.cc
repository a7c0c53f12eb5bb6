#include "service/cli/doctor/node_check.h"

#include <pwd.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ranklog/v1/base_url.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/output/terminal.h"
#include "service/deliver/credentials.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/curl_transport.h"

namespace ranklog::cli {
namespace {

namespace fs = std::filesystem;

// A smaller ring holds only a few seconds of rows of a fast training.
constexpr uint64_t kSmallRing = v1::kDefaultRingBytes / 4;
constexpr absl::Duration kTrackerPatience = absl::Seconds(5);  // short, because a user waits
constexpr absl::Duration kClockSlack = absl::Minutes(5);

// The first choice of a rank for its ring, as client/ring/spool/spool.cc tries them. `skipped`: why it
// does not use $RANKLOG_SPOOL_DIR.
std::string FirstSpoolDir(std::string* skipped) {
  if (const std::string named = EnvironmentVariable("RANKLOG_SPOOL_DIR"); !named.empty()) {
    const v1::PrivateDir dir(named, /*create=*/true);
    *skipped = v1::UnusableReason(dir);
    if (skipped->empty()) return dir.path;
  }
  const std::vector<v1::PrivateDir> dirs = v1::StandardDirs();
  const auto dir = std::find_if(dirs.begin(), dirs.end(), v1::CanBeUsed);
  return dir == dirs.end() ? "" : dir->path;
}

std::string LimitText(rlim_t limit, bool bytes) {
  if (limit == RLIM_INFINITY) return "unlimited";
  return bytes ? BytesText(static_cast<int64_t>(limit)) : absl::StrCat(limit);
}

rlim_t HardLimit(int resource) {
  rlimit limit{};
  return getrlimit(static_cast<__rlimit_resource>(resource), &limit) == 0 ? limit.rlim_max
                                                                          : RLIM_INFINITY;
}

// The variable from which curl takes the proxy for `url`, with its value; empty: no proxy.
std::string ProxyFor(const std::string& url) {
  const std::vector<const char*> names =
      absl::StartsWith(url, "https:")
          ? std::vector<const char*>{"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"}
          : std::vector<const char*>{"http_proxy", "all_proxy", "ALL_PROXY"};
  for (const char* name : names) {
    std::string value = EnvironmentVariable(name);
    if (value.empty()) continue;
    // Hides the password.
    const size_t scheme = value.find("://");
    const size_t begin = scheme == std::string::npos ? 0 : scheme + 3;
    if (const size_t at = value.rfind('@'); at != std::string::npos && at >= begin) {
      value.replace(begin, at - begin, "***");
    }
    return absl::StrCat("$", name, " = ", value);
  }
  return "";
}

absl::StatusOr<std::string> AskTracker(const deliver::Account& account,
                                       const deliver::Credential& key) {
  auto options = deliver::CurlTransport::Options::FromEnvironment();
  options.connect_timeout = kTrackerPatience;
  ASSIGN_OR_RETURN(const auto transport, deliver::CurlTransport::Create(options));
  return account.destination.AccountOf(*transport, account.server, key, kTrackerPatience);
}

std::string LastFour(const std::string& key) {
  return absl::StrCat("...", key.size() > 8 ? key.substr(key.size() - 4) : "");
}

Finding CheckServer(const Globals& globals, const deliver::Account& account,
                    const absl::StatusOr<deliver::Credential>& key) {
  const std::string& base_url = account.server;
  Finding finding{"tracker", {{"url", base_url}}, Printable(base_url), ""};
  if (key.ok() && !key->secret.empty()) {
    finding.data["key"] = LastFour(key->secret);
    absl::StrAppend(&finding.text, ", key ", Printable(LastFour(key->secret)));
  } else {
    finding.data["key"] = nullptr;
    absl::StrAppend(&finding.text, ", no key in this shell");
    if (!key.ok() && !absl::IsNotFound(key.status()))
      finding.advice = std::string(key.status().message());
  }
  const std::string proxy = ProxyFor(base_url);
  finding.data["proxy"] = proxy;
  if (!proxy.empty()) absl::StrAppend(&finding.text, ", through the proxy ", Printable(proxy));
  const absl::StatusOr<std::string> answer =
      AskTracker(account, key.value_or(deliver::Credential()));
  const bool refused = absl::IsUnauthenticated(answer.status());
  const bool reachable = answer.ok() || refused || absl::IsUnknown(answer.status());
  const std::string why(answer.status().message());
  finding.data["reachable"] = reachable;
  if (!reachable) {
    absl::StrAppend(&finding.text, ", not reachable: ", Printable(why));
    if (absl::IsFailedPrecondition(answer.status())) {
      // A wrong certificate or address: waiting does not help.
      finding.advice = why;
    } else if (finding.advice.empty() && !proxy.empty()) {
      finding.advice = "check the proxy; to try without it, run: env -u " +
                       proxy.substr(1, proxy.find(' ') - 1) + " " + globals.Command("doctor");
    }
    return finding;
  }
  absl::StrAppend(&finding.text, ", answers");
  if (!key.ok()) return finding;
  if (refused) {
    finding.advice = absl::StrCat(
        key->secret.empty() ? "the server needs a key"
                            : "the server refused the key " + LastFour(key->secret),
        "; run ", Printable(account.destination.LoginCommand(base_url)), " with a valid key");
  } else if (!answer.ok()) {
    finding.advice = absl::StrCat("the server answered ", why);
  }
  return finding;
}

}  // namespace

Finding CheckSpoolRoom(int ranks) {
  std::string skipped;
  const std::string dir = FirstSpoolDir(&skipped);
  if (dir.empty()) {
    return {"spool room",
            {{"path", nullptr}},
            "no directory for spools is usable",
            "ask an administrator to create /run/ranklog/" + absl::StrCat(geteuid()) +
                " for you, or set RANKLOG_SPOOL_DIR to a directory of your own on a local disk"};
  }
  fs::path there = dir;  // `dir` may not exist yet
  std::error_code error;
  while (!fs::exists(there, error) && there.has_relative_path()) there = there.parent_path();
  const fs::space_info space = fs::space(there, error);
  Finding finding{"spool room", {{"path", dir}, {"ranks", ranks}}, Printable(dir), ""};
  if (error) {
    finding.advice = absl::StrCat("not usable: ", error.message());
    return finding;
  }
  if (!skipped.empty()) {
    finding.advice = absl::StrCat("ranks do not use RANKLOG_SPOOL_DIR: ", Printable(skipped));
  }
  // The same shares as in client/ring/spool/spool_room.h: all rings get a quarter of the free space, and
  // a rank's first ring gets half of the rank's part.
  const uint64_t ring = std::min<uint64_t>(v1::kDefaultRingBytes,
                                           space.available / 4 / static_cast<uint64_t>(ranks) / 2);
  finding.data["free_bytes"] = space.available;
  finding.data["ring_bytes"] = ring;
  absl::StrAppend(&finding.text, ", ", BytesText(static_cast<int64_t>(space.available)),
                  " free: ", ranks, ranks == 1 ? " rank gets" : " ranks get", " a ring of ",
                  BytesText(static_cast<int64_t>(ring)), ranks == 1 ? "" : " each");
  if (ring < kSmallRing) {
    absl::StrAppend(
        &finding.advice, finding.advice.empty() ? "" : "; ", BytesText(v1::kDefaultRingBytes),
        " each are usual; in a container, use docker run --shm-size=1g, or in Kubernetes an "
        "emptyDir with medium Memory at /dev/shm; or set RANKLOG_SPOOL_DIR to a directory on a "
        "local disk");
  }
  return finding;
}

Finding CheckLimits(int ranks) {
  const rlim_t files = HardLimit(RLIMIT_NOFILE);
  const rlim_t size = HardLimit(RLIMIT_FSIZE);
  const rlim_t locked = HardLimit(RLIMIT_MEMLOCK);
  Finding finding{
      "limits",
      {{"open_files", files == RLIM_INFINITY ? model::Json() : model::Json(files)},
       {"file_bytes", size == RLIM_INFINITY ? model::Json() : model::Json(size)},
       {"locked_bytes", locked == RLIM_INFINITY ? model::Json() : model::Json(locked)}},
      absl::StrCat("open files ", LimitText(files, /*bytes=*/false), ", size of files ",
                   LimitText(size, /*bytes=*/true), ", locked memory ",
                   LimitText(locked, /*bytes=*/true), " (Ranklog does not lock memory)"),
      ""};
  // Each of four threads of a rank needs a connection, a pidfd and a ring. Ranks may use two thirds
  // of the descriptors, and the daemon itself needs 64.
  const rlim_t wanted = 64 + static_cast<rlim_t>(ranks) * 4 * 3 * 3 / 2;
  if (files < wanted) {
    finding.advice = absl::StrCat("a daemon needs ", wanted, " open files for ", ranks,
                                  " ranks; raise the hard limit (ulimit -Hn, or LimitNOFILE= of "
                                  "the service)");
  } else if (size != RLIM_INFINITY) {
    finding.advice =
        "the store cannot grow beyond that file size; start ranklogd from a shell with "
        "`ulimit -f unlimited`";
  }
  return finding;
}

Finding CheckClock(int64_t newest_us) {
  timex state{};
  const bool kept = ntp_adjtime(&state) != -1 && (state.status & STA_UNSYNC) == 0;
  const absl::Time now = absl::Now();
  Finding finding{"clock",
                  {{"synchronized", kept}, {"now", absl::ToDoubleSeconds(now - absl::UnixEpoch())}},
                  absl::StrCat(TimeText(absl::ToUnixMicros(now)),
                               kept ? ", synchronized" : ", not known to be synchronized"),
                  ""};
  const absl::Duration behind = absl::FromUnixMicros(newest_us) - now;
  if (newest_us != 0 && behind > kClockSlack) {
    finding.advice =
        absl::StrCat("a run in this store starts ", DurationText(behind),
                     " in the future; set the clock (timedatectl set-ntp true), because rows have "
                     "its times");
  }
  return finding;
}

std::vector<Finding> CheckServers(const Globals& globals, const std::string& state_dir,
                                  const std::vector<query::RunReport>& runs) {
  const deliver::CredentialStore keys(
      deliver::CredentialStore::Options::FromEnvironment(state_dir));
  std::vector<Finding> findings;
  for (const auto& destination : deliver::AllDestinations()) {
    if (!destination->NeedsKey()) continue;  // no server
    // A wrong address is reported as it was given.
    const auto server = [&](const model::RunSettings& settings) {
      return destination->ServerOf(settings).value_or(destination->AddressOf(settings));
    };
    std::set<std::string> urls;
    for (const query::RunReport& report : runs) {
      for (const query::DestinationReport& to : report.destinations) {
        if (to.kind != destination->kind() || !IsOpen(report, to)) continue;
        urls.insert(server(report.run.settings));
      }
    }
    const auto account = [&](const std::string& url) {
      return deliver::Account{.destination = *destination, .server = url, .project = ""};
    };
    const std::string setting = destination->words().url_setting;
    model::RunSettings settings;
    settings.destination_settings[destination->kind()][setting] =
        v1::WithoutUser(EnvironmentVariable(destination->VariableOf(setting).c_str()));
    const std::string usual = server(settings);
    // An unusable key is reported too.
    if (!usual.empty() && !absl::IsNotFound(keys.Find("", account(usual)).status())) {
      urls.insert(usual);
    }
    for (const std::string& url : urls) {
      findings.push_back(CheckServer(globals, account(url), keys.Find("", account(url))));
    }
  }
  return findings;
}

absl::optional<Finding> CheckSupervision(int64_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cgroup"));
  const std::string cgroups(std::istreambuf_iterator<char>(file), {});
  const passwd* const user = getpwuid(geteuid());
  if (absl::StrContains(cgroups, "/job_") && absl::StrContains(cgroups, "/step_")) {
    return Finding{"slurm",
                   {{"in_job", true}},
                   "the daemon is part of a job's step",
                   "it is killed at the end of the step, before all rows are delivered; let the "
                   "prolog start it (share/ranklog/slurm/README.md)"};
  }
  if (absl::StrContains(cgroups, "/user@") && user != nullptr) {
    const std::string linger = absl::StrCat("/var/lib/systemd/linger/", user->pw_name);
    const bool lingers = access(linger.c_str(), F_OK) == 0;
    return Finding{"systemd",
                   {{"user_manager", true}, {"lingers", lingers}},
                   absl::StrCat("the daemon belongs to the user manager of ", user->pw_name),
                   lingers ? ""
                           : absl::StrCat("it ends at your last logout, and does not start at "
                                          "boot; run: loginctl enable-linger ",
                                          user->pw_name)};
  }
  return absl::nullopt;
}

}  // namespace ranklog::cli
