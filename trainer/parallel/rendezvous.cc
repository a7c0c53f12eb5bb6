#include "trainer/parallel/rendezvous.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdlib>
#include <system_error>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "trainer/base/torch_compat.h"
#include "trainer/parallel/peer_watch.h"
#include "trainer/parallel/rendezvous_store.h"

namespace ranklog::trainer {
namespace {

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// A socket at a free port of 127.0.0.1, and the port.
std::pair<int, uint16_t> BindToLoopback() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (fd < 0 || bind(fd, any, size) != 0 || getsockname(fd, any, &size) != 0)
    throw std::system_error(errno, std::generic_category(), "cannot listen on 127.0.0.1");
  return {fd, ntohs(address.sin_port)};
}

}  // namespace

absl::StatusOr<Rendezvous> Rendezvous::FromEnvironment(int rank, int world_size) {
  Rendezvous at{.rank = rank, .world_size = world_size};
  if (world_size == 1) return at;
  at.address = Env("MASTER_ADDR");
  int port = 0;
  if (at.address.empty() || !absl::SimpleAtoi(Env("MASTER_PORT"), &port) || port < 1 ||
      port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(world_size,
                                                   " ranks need MASTER_ADDR (host of rank 0) and "
                                                   "MASTER_PORT (1 to 65535) to meet; they are \"",
                                                   at.address, "\" and \"", Env("MASTER_PORT"),
                                                   "\""));
  }
  at.port = static_cast<uint16_t>(port);
  at.hosted = Env("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (const std::string attempt = Env("TORCHELASTIC_RESTART_COUNT"); !attempt.empty())
    at.attempt = attempt;
  return at;
}

struct HostedStore::Impl {
  c10::intrusive_ptr<c10d::TCPStore> store;
};

HostedStore::HostedStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HostedStore::HostedStore(HostedStore&&) noexcept = default;
HostedStore& HostedStore::operator=(HostedStore&&) noexcept = default;
HostedStore::~HostedStore() = default;

uint16_t HostedStore::port() const { return impl_->store->getPort(); }

bool HostedStore::HasFailed(int rank) const {
  try {
    return c10d::PrefixStore(AttemptPrefix("0"), impl_->store).check({PeerWatch::FailedKey(rank)});
  } catch (const std::exception&) {
    return false;
  }
}

absl::StatusOr<HostedStore> HostedStore::Serve() {
  try {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    compat::ServeAt(options, BindToLoopback);
    return HostedStore(
        std::make_unique<Impl>(Impl{compat::OpenStore<c10d::TCPStore>("127.0.0.1", options)}));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("cannot serve the rendezvous store: ", error.what(),
                                               "; set up the interface lo, or raise ulimit -n"));
  }
}

}  // namespace ranklog::trainer
