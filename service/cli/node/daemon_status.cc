#include "service/cli/node/daemon_status.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "ranklog/v1/places.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/base/clock.h"
#include "service/base/environment.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/base/text/shell_word.h"
#include "service/ingest/control_channel.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {
namespace {

constexpr auto kCommitPatience = std::chrono::seconds(10);  // same as for the rank's Finish()

constexpr auto kRemembered = absl::Seconds(1);  // so that one command waits for only one timeout

constexpr char kUnix[] = "unix:";

// A daemon that did not answer.
struct Silence {
  int64_t pid = 0;  // process that bound the socket; 0: in another pid namespace
  absl::Time until;
};
std::map<std::string, Silence>& Silent() {
  static auto* const silent = new std::map<std::string, Silence>;
  return *silent;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address, int64_t* pid) {
  auto channel = ingest::ConnectToDaemon(address.substr(sizeof kUnix - 1), pid);
  if (channel.ok()) return channel;
  std::string why =
      absl::StrCat("no daemon answers at ", address, ": ", channel.status().message());
  if (absl::IsUnavailable(channel.status())) {
    absl::StrAppend(&why, "; to start one there, run: ranklogd --background --listen ",
                    Printable(ShellWord(address)));
  }
  return absl::UnavailableError(why);
}

absl::Status CheckAddress(const std::string& address) {
  if (!absl::StartsWith(address, kUnix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Printable(address), "' is not an address; use unix:PATH"));
  }
  const size_t bytes = address.size() - (sizeof kUnix - 1);
  if (bytes <= v1::kMaxSocketPath) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the path of the socket has ", bytes, " bytes, and the kernel accepts at most ",
                   v1::kMaxSocketPath, "; choose a shorter one: ", Printable(address)));
}

// The daemon of `state_dir` if it listens at one of the addresses.
absl::optional<DaemonStatus> FindDaemonAt(const std::vector<std::string>& addresses,
                                          const std::string& state_dir) {
  for (const std::string& candidate : addresses) {
    const auto daemon = AskDaemon(candidate);
    if (!daemon.ok()) continue;
    std::error_code ignored;
    if (std::filesystem::equivalent(daemon->state_dir, state_dir, ignored)) return *daemon;
  }
  return absl::nullopt;
}

std::string SilenceReason(int64_t pid) {
  return IsDaemon(pid) ? absl::StrCat("is process ", pid, " stopped (kill -CONT ", pid,
                                      "), or does its disk hang?")
                       : "is the daemon stopped, or does its disk hang?";
}

}  // namespace

bool IsDaemon(int64_t pid) {
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/", pid, "/comm")), name);
  return name == "ranklogd";
}

absl::StatusOr<DaemonStatus> AskDaemon(const std::string& address) {
  RETURN_IF_ERROR(CheckAddress(address));
  const auto silence = [&](int64_t pid) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, " in time: ", SilenceReason(pid)));
  };
  if (TimedOut(address)) return silence(TimedOutPid(address));
  int64_t pid = 0;
  ASSIGN_OR_RETURN(const auto channel, Connect(address, &pid));
  v1::StatusReply reply;
  const grpc::Status status = ingest::AskStatus(channel, &reply);
  Silent().erase(address);
  if (status.error_code() == grpc::DEADLINE_EXCEEDED) {
    Silent()[address] = {pid, SteadyNow() + kRemembered};
    return silence(pid);
  }
  if (!status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, ": ", status.error_message(),
                     "; run this command again, or see `ranklog daemon-log`"));
  }
  DaemonStatus daemon;
  daemon.address = address;
  daemon.version = reply.version();
  daemon.pid = reply.pid();
  daemon.state_dir = reply.state_dir();
  daemon.start_time_us = reply.start_time_us();
  daemon.started_by = reply.started_by();
  daemon.live_streams = reply.live_streams();
  daemon.live_jobs = reply.live_jobs();
  daemon.live_ranks = reply.live_ranks();
  daemon.rows_per_second = reply.rows_per_second();
  if (reply.has_growth_bytes_per_second()) {
    daemon.growth_per_second = reply.growth_bytes_per_second();
  }
  daemon.store_error = reply.store_error();
  daemon.metrics_url = reply.metrics_url();
  for (const v1::DestinationStatus& one : reply.destinations()) {
    daemon.destinations[one.kind()] = {one.last_success_us(), one.last_error_us(),
                                       one.last_error()};
  }
  if (reply.has_keep_for_us()) daemon.keep_for = absl::Microseconds(reply.keep_for_us());
  daemon.content_quota = reply.content_quota();
  if (reply.has_keep_bytes()) daemon.keep_bytes = reply.keep_bytes();
  daemon.stopped_runs.insert(reply.stopped_runs().begin(), reply.stopped_runs().end());
  daemon.counters.insert(reply.counters().begin(), reply.counters().end());
  if (reply.has_peer()) {
    DaemonStatus::Peer& peer = daemon.peer.emplace();
    peer.key_file = reply.peer().key_file();
    peer.fingerprint = reply.peer().fingerprint();
    peer.address = reply.peer().address();
    peer.error = reply.peer().error();
    for (const v1::PeerLink& link : reply.peer().link()) {
      peer.links.push_back({link.run(), link.home(), link.error(), link.waiting_rows(),
                            link.last_answer_us(), link.stuck_seconds()});
    }
    for (const v1::PeerNode& node : reply.peer().node()) {
      peer.nodes.push_back({node.name(), node.silent_seconds(), node.streams()});
    }
  }
  return daemon;
}

bool TimedOut(const std::string& address) {
  const auto silent = Silent().find(address);
  return silent != Silent().end() && SteadyNow() < silent->second.until;
}

int64_t TimedOutPid(const std::string& address) {
  const auto silent = Silent().find(address);
  return silent == Silent().end() ? 0 : silent->second.pid;
}

std::string TimedOutAddress(int64_t pid, const std::string& address) {
  for (const std::string& candidate : AddressesOfRanks(address)) {
    const auto silent = Silent().find(candidate);
    if (silent == Silent().end()) continue;
    if (silent->second.pid == pid || !IsDaemon(silent->second.pid)) return candidate;
  }
  return "";
}

std::string TimeoutText(int64_t pid, const std::string& address) {
  return absl::StrCat("it does not answer at ", address, ": ", SilenceReason(pid));
}

std::string NamedAddress(const std::string& address) {
  return address.empty() ? EnvironmentVariable("RANKLOG_ADDRESS") : address;
}

std::string SocketPath(const std::string& address) {
  const std::string named = NamedAddress(address);
  return named.empty() ? v1::DefaultSocket() : std::string(absl::StripPrefix(named, kUnix));
}

std::vector<std::string> AddressesOfRanks(const std::string& address) {
  std::string named = NamedAddress(address);
  return named.empty() ? StandardAddresses() : std::vector<std::string>{std::move(named)};
}

std::vector<std::string> StandardAddresses() {
  std::vector<std::string> addresses;
  for (const v1::PrivateDir& dir : v1::StandardDirs()) {
    const std::string path = absl::StrCat(dir.path, "/", v1::kSocketFile);
    if (access(path.c_str(), F_OK) == 0) addresses.push_back("unix:" + path);
  }
  return addresses;
}

absl::optional<DaemonStatus> FindDaemon(const std::string& state_dir, const std::string& address) {
  return FindDaemonAt(AddressesOfRanks(address), state_dir);
}

std::string WrongAddressText(const std::string& state_dir) {
  const std::string named = NamedAddress("");
  if (named.empty()) return "";
  if (const absl::Status wrong = CheckAddress(named); !wrong.ok()) {
    return absl::StrCat("RANKLOG_ADDRESS: ", wrong.message());
  }
  const auto daemon = FindDaemonAt(StandardAddresses(), state_dir);
  if (!daemon) return "";
  return absl::StrCat("the daemon answers at ", daemon->address, ", but RANKLOG_ADDRESS names ",
                      Printable(named), "; to use this daemon, run: unset RANKLOG_ADDRESS");
}

absl::optional<DaemonStatus> FindOtherDaemon(const std::string& state_dir,
                                             const std::string& address) {
  if (storage::StateLock::Holder(state_dir) != 0) return absl::nullopt;
  for (const std::string& candidate : AddressesOfRanks(address)) {
    auto daemon = AskDaemon(candidate);
    std::error_code ignored;
    if (!daemon.ok()) continue;
    if (std::filesystem::equivalent(daemon->state_dir, state_dir, ignored)) continue;
    return *std::move(daemon);
  }
  return absl::nullopt;
}

std::string OtherDaemonText(const DaemonStatus& daemon) {
  return absl::StrCat("the daemon that ranks find, pid ", daemon.pid, " at ", daemon.address,
                      ", keeps ", Printable(daemon.state_dir));
}

absl::StatusOr<DaemonStatus> FindHolder(const std::string& state_dir, const std::string& address) {
  const absl::optional<DaemonStatus> daemon = FindDaemon(state_dir, address);
  if (daemon.has_value()) return *daemon;
  const std::string wrong = WrongAddressText(state_dir);
  if (!wrong.empty()) return absl::UnavailableError(wrong);
  return absl::UnavailableError(
      absl::StrCat("process ", storage::StateLock::Holder(state_dir),
                   " has the store, but no daemon answers; give its socket with --address "
                   "unix:PATH, or wait if the process is a `ranklog sync`"));
}

std::string StoreProblem(const DaemonStatus& daemon) {
  const auto failing = daemon.counters.find("store.failing");
  if (failing == daemon.counters.end() || failing->second == 0) return "";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(daemon.state_dir, error);
  const std::string free =
      error ? ""
            : absl::StrCat(" (", BytesText(static_cast<int64_t>(space.available)), " free in ",
                           daemon.state_dir, ")");
  return absl::StrCat("the daemon cannot store rows", free, "; they stay in the spools; ",
                      error ? "" : "free space on that disk; ", "the daemon's log has the reason");
}

std::string StuckText(const DaemonStatus::Peer::Link& link) {
  return absl::StrCat("rank 0's node", link.home.empty() ? "" : " at " + Printable(link.home),
                      " for ", DurationText(absl::Seconds(link.stuck_seconds)), ": ",
                      Printable(link.error));
}

absl::Status AddDestination(const DaemonStatus& daemon, int64_t run, const std::string& kind,
                            const std::map<std::string, std::string>& credentials,
                            const std::map<std::string, std::string>& settings) {
  int64_t pid = 0;
  ASSIGN_OR_RETURN(const auto channel, Connect(daemon.address, &pid));
  const auto stub = v1::Control::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitPatience);
  v1::AddDestinationRequest request;
  request.set_run(run);
  request.set_kind(kind);
  request.mutable_credentials()->insert(credentials.begin(), credentials.end());
  request.mutable_settings()->insert(settings.begin(), settings.end());
  v1::AddDestinationReply reply;
  const grpc::Status status = stub->AddDestination(&context, request, &reply);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::Status RemoveRun(const DaemonStatus& daemon, int64_t run, storage::Removal removal) {
  int64_t pid = 0;
  ASSIGN_OR_RETURN(const auto channel, Connect(daemon.address, &pid));
  const auto stub = v1::Control::NewStub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitPatience);
  v1::RemoveRunRequest request;
  request.set_run(run);
  request.set_force(removal == storage::Removal::kWhateverWaits);
  request.set_delivered(removal == storage::Removal::kDelivered);
  v1::RemoveRunReply reply;
  const grpc::Status status = stub->RemoveRun(&context, request, &reply);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace ranklog::cli
