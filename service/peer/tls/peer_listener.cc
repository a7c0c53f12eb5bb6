#include "service/peer/tls/peer_listener.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/peer/tls/peer_credentials.h"

namespace ranklog::peer {
namespace {

constexpr int kBacklog = 1024;                 // peers that connect at once
constexpr unsigned char kTlsHandshake = 0x16;  // the first byte of a TLS record with a ClientHello
constexpr absl::Duration kPause = absl::Seconds(1);  // after a shortage of descriptors
constexpr absl::Duration kLook = absl::Minutes(1);   // between checks of the wall clock
constexpr auto kShutdown = std::chrono::seconds(5);

struct FreeAddresses {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

void Enable(int fd, int level, int option, int value = 1) {
  setsockopt(fd, level, option, &value, sizeof(value));
}

absl::StatusOr<Addresses> Resolve(const HostPort& address) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const int error =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &list);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  return Addresses(list);
}

// A listening socket; else an invalid one, and errno.
UniqueFd Listen(const addrinfo& address) {
  UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return fd;
  // Connections of an earlier daemon may still be in the kernel. This does not share the port.
  Enable(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  if (address.ai_family == AF_INET6) Enable(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
  if (bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 || listen(fd.get(), kBacklog) != 0) {
    const int why = errno;
    fd = UniqueFd();
    errno = why;
  }
  return fd;
}

int PortOf(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  char port[NI_MAXSERV] = "0";
  int number = 0;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) == 0) {
    getnameinfo(reinterpret_cast<sockaddr*>(&storage), size, nullptr, 0, port, sizeof(port),
                NI_NUMERICSERV);
  }
  return absl::SimpleAtoi(port, &number) ? number : 0;
}

// A new descriptor gets the lowest free number, so its number shows how many are in use.
bool IsAboveShare(int fd, int most) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return fd >= most || static_cast<rlim_t>(fd) >= limit.rlim_cur / 2;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerListener>> PeerListener::Start(Options options,
                                                                  const PeerKey* key,
                                                                  grpc::Service* service,
                                                                  Counters* counters) {
  std::unique_ptr<PeerListener> listener(
      new PeerListener(std::move(options), key, service, counters));
  if (!listener->stop_.valid()) {
    return absl::ErrnoToStatus(errno, "cannot create a descriptor of the listener for peers");
  }
  listener->Maintain(SteadyNow());  // so that error() and address() are known
  listener->thread_ = std::thread([raw = listener.get()] { raw->Run(); });
  return listener;
}

PeerListener::PeerListener(Options options, const PeerKey* key, grpc::Service* service,
                           Counters* counters)
    : options_(std::move(options)),
      key_(*key),
      service_(service),
      counters_(*counters),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      address_(options_.address) {}

PeerListener::~PeerListener() { Stop(); }

void PeerListener::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
  undecided_.clear();
  socket_ = UniqueFd();
  EndServer();
}

std::string PeerListener::error() const {
  const absl::MutexLock lock(&mutex_);
  return error_;
}

HostPort PeerListener::address() const {
  const absl::MutexLock lock(&mutex_);
  return address_;
}

void PeerListener::SetError(const absl::Status& why) {
  const std::string text(why.message());
  const absl::MutexLock lock(&mutex_);
  if (text == error_) return;
  error_ = text;
  if (why.ok()) {
    spdlog::info("listens at {} for the daemons of other nodes", address_.Text());
  } else {
    spdlog::error("{}; tried again every {}", text, absl::FormatDuration(options_.retry));
  }
}

void PeerListener::Run() {
  const Pulse::Loop loop(&pulse_);
  while (true) {
    const absl::Time now = SteadyNow();
    Wait(now);
    uint64_t stopped = 0;
    if (eventfd_read(stop_.get(), &stopped) == 0) return;
    CloseLate(SteadyNow());
    Maintain(SteadyNow());
  }
}

bool PeerListener::MustRenew(absl::Time now) const {
  if (server_ == nullptr || now - made_steady_ >= options_.renew) return true;
  // The steady clock stands while the machine sleeps, and the wall clock may be set.
  const absl::Duration age = options_.now() - made_;
  return age >= options_.renew || age < -absl::Hours(12);
}

void PeerListener::Maintain(absl::Time now) {
  if (now < try_again_) return;
  absl::Status status;
  if (MustRenew(now)) {
    status = MakeServer();
    // Nothing listens without valid credentials.
    if (!status.ok()) socket_ = UniqueFd();
  } else if (socket_.valid()) {
    return;
  }
  if (status.ok() && !socket_.valid()) status = Bind();
  try_again_ = status.ok() ? absl::InfinitePast() : now + options_.retry;
  SetError(status);
}

absl::Status PeerListener::MakeServer() {
  EndServer();
  made_ = options_.now();
  made_steady_ = SteadyNow();
  ASSIGN_OR_RETURN(auto credentials, MakeServerCredentials(key_, made_));
  grpc::ServerBuilder builder;
  acceptor_ = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      std::move(credentials));
  builder.RegisterService(service_);
  builder.SetResourceQuota(grpc::ResourceQuota("peers").Resize(options_.memory));
  SetPeerArguments(&builder, options_.handshake);
  server_ = builder.BuildAndStart();
  if (server_ != nullptr) return absl::OkStatus();
  acceptor_ = nullptr;
  return absl::InternalError("cannot start gRPC for the daemons of other nodes");
}

void PeerListener::EndServer() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdown);
  acceptor_ = nullptr;
  server_ = nullptr;
}

absl::Status PeerListener::Bind() {
  const HostPort wanted = address();
  const std::string doing =
      absl::StrCat("cannot listen at ", wanted.Text(), " for the daemons of other nodes: ");
  absl::StatusOr<Addresses> addresses = Resolve(wanted);
  if (!addresses.ok()) {
    return absl::UnavailableError(absl::StrCat(doing, addresses.status().message(),
                                               "; correct --peer-listen, or give an address of "
                                               "this node"));
  }
  socket_ = Listen(**addresses);
  if (!socket_.valid() && errno == EAFNOSUPPORT && wanted.host == "::") {
    // A kernel without IPv6: the same for IPv4.
    addresses = Resolve({.host = "0.0.0.0", .port = wanted.port});
    if (addresses.ok()) socket_ = Listen(**addresses);
  }
  if (!socket_.valid()) {
    const int why = errno;
    return absl::UnavailableError(
        absl::StrCat(doing, strerror(why),
                     why == EADDRINUSE ? "; end the other program, or choose another port on all "
                                         "nodes (--peer-listen)"
                                       : ""));
  }
  const absl::MutexLock lock(&mutex_);
  address_.port = PortOf(socket_.get());
  return absl::OkStatus();
}

void PeerListener::Wait(absl::Time now) {
  absl::Time next = now + kLook;
  if (try_again_ > now) next = std::min(next, try_again_);
  if (accept_again_ > now) next = std::min(next, accept_again_);
  // Maintain() does nothing before try_again_.
  const absl::Time renews = made_steady_ + std::max(options_.renew, absl::Milliseconds(10));
  next = std::min(next, std::max(renews, try_again_));
  std::vector<pollfd> waiting = {{stop_.get(), POLLIN, 0}};
  const bool listens = socket_.valid() && accept_again_ <= now;
  if (listens) waiting.push_back({socket_.get(), POLLIN, 0});
  for (const auto& [fd, connection] : undecided_) {
    waiting.push_back({fd, POLLIN, 0});
    next = std::min(next, connection.second);
  }
  const auto wait = std::max<int64_t>(absl::ToInt64Milliseconds(next - now) + 1, 0);
  {
    const Pulse::Rest rest;
    poll(waiting.data(), waiting.size(), static_cast<int>(wait));
  }
  for (const pollfd& each : waiting) {
    if (each.revents == 0 || each.fd == stop_.get()) continue;
    if (each.fd == socket_.get()) {
      AcceptAll(SteadyNow());
    } else {
      Decide(each.fd);
    }
  }
}

void PeerListener::AcceptAll(absl::Time now) {
  // Bounded, so that a flood does not keep this thread from its other work.
  for (int i = 0; i < kBacklog; ++i) {
    UniqueFd fd(accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd.valid() && errno == EAGAIN) return;
    if (!fd.valid() || IsAboveShare(fd.get(), options_.max_descriptor)) {
      // The others wait in the backlog until connections end.
      accept_again_ = now + kPause;
      if (counters_.shortages++ == 0) {
        spdlog::error(
            "too few file descriptors for the daemons of other nodes: they connect later; they may "
            "use half of the limit (ulimit -n, or LimitNOFILE= of the service), and at most {}",
            options_.max_descriptor);
      }
      return;
    }
    ++counters_.accepted;
    if (undecided_.size() >= options_.max_undecided) {
      undecided_.erase(std::min_element(
          undecided_.begin(), undecided_.end(),
          [](const auto& a, const auto& b) { return a.second.second < b.second.second; }));
      ++counters_.refused;
    }
    Enable(fd.get(), IPPROTO_TCP, TCP_NODELAY);
    const int raw = fd.get();
    undecided_[raw] = {std::move(fd), now + options_.first_byte};
  }
}

void PeerListener::Decide(int fd) {
  const auto found = undecided_.find(fd);
  if (found == undecided_.end()) return;  // closed meanwhile, for a newer one
  unsigned char first = 0;
  const ssize_t size = recv(fd, &first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  UniqueFd connection = std::move(found->second.first);
  undecided_.erase(found);
  if (size < 1 || first != kTlsHandshake || acceptor_ == nullptr) {
    ++counters_.refused;
    return;
  }
  grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
  parameters.listener_fd = socket_.get();
  parameters.fd = connection.release();
  acceptor_->HandleNewConnection(&parameters);
}

void PeerListener::CloseLate(absl::Time now) {
  for (auto i = undecided_.begin(); i != undecided_.end();) {
    if (i->second.second > now) {
      ++i;
      continue;
    }
    ++counters_.refused;
    i = undecided_.erase(i);
  }
}

}  // namespace ranklog::peer
