#include "service/cli/daemon_status.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ranklog/v1/ranklog.grpc.pb.h"

namespace ranklog::cli {
namespace {

constexpr auto kPatience = std::chrono::seconds(2);  // it is on this node and does no I/O to answer
constexpr auto kCommitPatience = std::chrono::seconds(10);  // as the rank's Finish()

}  // namespace

absl::StatusOr<DaemonStatus> AskDaemon(const std::string& address) {
  if (!absl::StartsWith(address, "unix:")) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", address, "' is no address of a daemon; it has the form unix:PATH"));
  }
  const auto stub =
      v1::Control::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kPatience);
  v1::StatusReply reply;
  if (const grpc::Status status = stub->Status(&context, {}, &reply); !status.ok()) {
    return absl::UnavailableError(
        absl::StrCat("no daemon answers at ", address, ": ", status.error_message()));
  }
  DaemonStatus daemon;
  daemon.address = address;
  daemon.version = reply.version();
  daemon.pid = reply.pid();
  daemon.state_dir = reply.state_dir();
  daemon.start_time_us = reply.start_time_us();
  daemon.started_by = reply.started_by();
  daemon.live_streams = reply.live_streams();
  daemon.counters.insert(reply.counters().begin(), reply.counters().end());
  return daemon;
}

std::vector<std::string> UsualAddresses() {
  std::vector<std::string> addresses;
  if (const char* address = std::getenv("RANKLOG_ADDRESS"); address != nullptr && *address != 0) {
    addresses.push_back(address);
  }
  std::vector<std::string> paths = {absl::StrCat("/run/ranklog/", getuid(), "/ranklogd.sock")};
  if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir != nullptr && *dir == '/') {
    paths.push_back(absl::StrCat(dir, "/ranklog/ranklogd.sock"));
  }
  paths.push_back(absl::StrCat("/dev/shm/ranklog-", getuid(), "/ranklogd.sock"));
  for (const std::string& path : paths) {
    if (access(path.c_str(), F_OK) == 0) addresses.push_back("unix:" + path);
  }
  return addresses;
}

absl::optional<DaemonStatus> FindDaemon(const std::string& state_dir, const std::string& address) {
  const std::vector<std::string> addresses =
      address.empty() ? UsualAddresses() : std::vector<std::string>{address};
  for (const std::string& candidate : addresses) {
    const auto daemon = AskDaemon(candidate);
    if (!daemon.ok()) continue;
    std::error_code ignored;
    if (std::filesystem::equivalent(daemon->state_dir, state_dir, ignored)) return *daemon;
  }
  return absl::nullopt;
}

absl::Status AddDestination(const DaemonStatus& daemon, int64_t run, const std::string& kind,
                            const std::map<std::string, std::string>& credentials) {
  const auto stub =
      v1::Control::NewStub(grpc::CreateChannel(daemon.address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCommitPatience);
  v1::AddDestinationRequest request;
  request.set_run(run);
  request.set_kind(kind);
  request.mutable_credentials()->insert(credentials.begin(), credentials.end());
  v1::AddDestinationReply reply;
  const grpc::Status status = stub->AddDestination(&context, request, &reply);
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

}  // namespace ranklog::cli
