#include "service/ingest/server/acceptor.h"

#include <errno.h>
#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "ranklog/v1/spool_layout.h"
#include "service/base/clock.h"
#include "service/base/fault_point.h"

namespace ranklog::ingest {
namespace {

constexpr char kGrpcMagic[] = {'P', 'R', 'I'};  // start of the HTTP/2 preface
constexpr size_t kDescriptorMessage = sizeof(v1::kDescriptorMagic) + sizeof(uint64_t);
constexpr absl::Duration kPause = absl::Seconds(1);  // after a shortage of descriptors

bool StartsWith(const char* bytes, size_t size, const char* magic, size_t magic_size) {
  return memcmp(bytes, magic, std::min(size, magic_size)) == 0;
}

void Watch(int epoll, int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

rlim_t DescriptorLimit() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

// A new descriptor gets the lowest free number, so its number shows how many are in use.
bool IsAmongTheLast(int fd) { return static_cast<rlim_t>(fd) >= DescriptorLimit() / 3 * 2; }

bool HasRoom() {
  const UniqueFd next(eventfd(0, EFD_CLOEXEC));
  return next.valid() && !IsAmongTheLast(next.get());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Acceptor>> Acceptor::Start(ListenSocket socket, Options options,
                                                          Handlers handlers, Counters* counters) {
  std::unique_ptr<Acceptor> acceptor(
      new Acceptor(std::move(socket), options, std::move(handlers), counters));
  if (!acceptor->epoll_.valid() || !acceptor->stop_.valid()) {
    return absl::ErrnoToStatus(errno, "cannot create the descriptors of the acceptor");
  }
  Watch(acceptor->epoll_.get(), acceptor->socket_.fd(), EPOLLIN);
  Watch(acceptor->epoll_.get(), acceptor->stop_.get(), EPOLLIN);
  acceptor->thread_ = std::thread([raw = acceptor.get()] { raw->Run(); });
  return acceptor;
}

Acceptor::Acceptor(ListenSocket socket, Options options, Handlers handlers, Counters* counters)
    : socket_(std::move(socket)),
      path_(socket_.path()),
      options_(options),
      handlers_(std::move(handlers)),
      counters_(*counters),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      look_(SteadyNow() + options.check_interval) {}

Acceptor::~Acceptor() { Stop(); }

void Acceptor::Stop() {
  if (!thread_.joinable()) return;
  eventfd_write(stop_.get(), 1);
  thread_.join();
  undecided_.clear();
  ListenSocket closed(std::move(socket_));
}

void Acceptor::Run() {
  const Pulse::Loop loop(&pulse_);
  while (true) {
    epoll_event events[64];
    int count = 0;
    {
      const Pulse::Rest rest;
      count = epoll_wait(epoll_.get(), events, 64, WaitMilliseconds(SteadyNow()));
    }
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == stop_.get()) return;
      if (fd == socket_.fd()) {
        AcceptAll();
      } else {
        Decide(fd);
      }
    }
    const absl::Time now = SteadyNow();
    CloseLate(now);
    Resume(now);
    CheckSocketFile(now);
  }
}

void Acceptor::AcceptAll() {
  while (!paused_) {
    UniqueFd fd(accept4(socket_.fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!fd.valid() && errno == EAGAIN) {
      if (std::exchange(short_, false)) spdlog::info("all waiting ranks are connected");
      return;
    }
    if (!fd.valid() || IsAmongTheLast(fd.get())) Pause(SteadyNow());
    if (fd.valid()) Admit(std::move(fd));
  }
}

void Acceptor::Admit(UniqueFd fd) {
  FaultPoint("accept");
  ++counters_.accepted;
  auto peer = std::make_shared<const Peer>(PeerOf(fd.get()));
  if (peer->uid != options_.uid) {
    if (counters_.refused_user++ == 0) {
      spdlog::warn("refused a process of user {} (pid {})", peer->uid, peer->pid);
    }
    return;
  }
  if (undecided_.size() >= options_.max_undecided) {
    auto oldest = std::min_element(
        undecided_.begin(), undecided_.end(),
        [](const auto& a, const auto& b) { return a.second.deadline < b.second.deadline; });
    undecided_.erase(oldest);
    ++counters_.refused_protocol;
  }
  const int raw = fd.get();
  undecided_[raw] = {std::move(fd), std::move(peer), SteadyNow() + options_.first_bytes};
  // Edge-triggered, to get one event per arrival. Otherwise a connection with only some of its
  // first bytes would keep the loop busy.
  Watch(epoll_.get(), raw, EPOLLIN | EPOLLRDHUP | EPOLLET);
}

void Acceptor::Pause(absl::Time now) {
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, socket_.fd(), nullptr);
  paused_ = true;
  resume_ = now + kPause;
  if (std::exchange(short_, true)) return;
  ++counters_.shortages;
  spdlog::error(
      "too few file descriptors: new ranks wait until others disconnect; the limit is {}, and "
      "ranks "
      "may use two thirds of it; raise it (ulimit -n, or LimitNOFILE= of the service)",
      DescriptorLimit());
}

void Acceptor::Resume(absl::Time now) {
  if (!paused_ || now < resume_) return;
  resume_ = now + kPause;
  if (!HasRoom()) return;
  paused_ = false;
  Watch(epoll_.get(), socket_.fd(), EPOLLIN);
}

void Acceptor::CheckSocketFile(absl::Time now) {
  if (now < look_) return;
  look_ = now + options_.check_interval;
  if (socket_.InPlace()) return;
  absl::StatusOr<ListenSocket> again = ListenSocket::Bind(path_);
  if (!again.ok() && SystemdListens(path_)) {
    superseded_ = true;
    return;
  }
  if (!again.ok()) {
    if (std::exchange(unbound_, true)) return;
    spdlog::error(
        "cannot create the socket {} again after it was removed: {}; attached ranks are not "
        "affected, new ranks cannot connect",
        path_, std::string(again.status().message()));
    return;
  }
  AcceptAll();  // accepts ranks that connected before the file was removed
  socket_ = *std::move(again);
  if (!paused_) Watch(epoll_.get(), socket_.fd(), EPOLLIN);
  unbound_ = false;
  ++counters_.rebinds;
  spdlog::warn("the socket {} was removed and has been created again", path_);
}

Acceptor::Decision Acceptor::Classify(int fd) {
  char bytes[kDescriptorMessage];
  const ssize_t size = recv(fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? Decision::kWait : Decision::kRefuse;
  if (size == 0) return Decision::kGone;  // the peer only checked that the daemon answers
  const size_t got = static_cast<size_t>(size);
  if (StartsWith(bytes, got, kGrpcMagic, sizeof(kGrpcMagic))) {
    return got >= sizeof(kGrpcMagic) ? Decision::kGrpc : Decision::kWait;
  }
  if (!StartsWith(bytes, got, v1::kDescriptorMagic, sizeof(v1::kDescriptorMagic))) {
    return Decision::kRefuse;
  }
  return got == kDescriptorMessage ? Decision::kDescriptor : Decision::kWait;
}

void Acceptor::Decide(int fd) {
  auto found = undecided_.find(fd);
  if (found == undecided_.end()) return;
  const Decision decision = Classify(fd);
  if (decision == Decision::kWait) return;
  PendingConnection connection = std::move(found->second);
  undecided_.erase(found);
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  if (decision == Decision::kGrpc) {
    handlers_.grpc(std::move(connection.fd), std::move(connection.peer));
  } else if (decision == Decision::kDescriptor) {
    ReceiveDescriptor(std::move(connection));
  } else if (decision == Decision::kRefuse) {
    ++counters_.refused_protocol;
  }
}

void Acceptor::ReceiveDescriptor(PendingConnection connection) {
  char bytes[kDescriptorMessage];
  iovec part{.iov_base = bytes, .iov_len = sizeof(bytes)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  const ssize_t size = recvmsg(connection.fd.get(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  UniqueFd received;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header != nullptr && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int))) {
    int fd = -1;
    memcpy(&fd, CMSG_DATA(header), sizeof(fd));
    received = UniqueFd(fd);
  }
  // A truncated message means that the peer sent several descriptors, or that this process has none
  // left.
  if (size != static_cast<ssize_t>(sizeof(bytes)) || !received.valid() ||
      (message.msg_flags & MSG_CTRUNC) != 0) {
    ++counters_.refused_protocol;
    return;
  }
  uint64_t incarnation = 0;
  memcpy(&incarnation, bytes + sizeof(v1::kDescriptorMagic), sizeof(incarnation));
  ++counters_.descriptors;
  handlers_.descriptor(incarnation, std::move(received), std::move(connection.peer),
                       std::move(connection.fd));
}

void Acceptor::CloseLate(absl::Time now) {
  for (auto i = undecided_.begin(); i != undecided_.end();) {
    if (i->second.deadline > now) {
      ++i;
      continue;
    }
    ++counters_.refused_protocol;
    i = undecided_.erase(i);
  }
}

int Acceptor::WaitMilliseconds(absl::Time now) const {
  absl::Time next = paused_ ? std::min(resume_, look_) : look_;
  for (const auto& [fd, connection] : undecided_) next = std::min(next, connection.deadline);
  return static_cast<int>(std::max<int64_t>(absl::ToInt64Milliseconds(next - now) + 1, 0));
}

}  // namespace ranklog::ingest
