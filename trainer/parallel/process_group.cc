#include "trainer/parallel/process_group.h"

#include <ATen/ATen.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "trainer/base/rank_error.h"
#include "trainer/base/torch_compat.h"
#include "trainer/parallel/peer_watch.h"
#include "trainer/parallel/rendezvous_error.h"

#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace ranklog::trainer {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using SteadyClock = std::chrono::steady_clock;

constexpr char kRefused[] = "refused";  // key of the reason why the ranks cannot meet

// The pauses between two looks into the store: short at first, and few in a job of many ranks.
class Pauses {
 public:
  void Wait() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, std::chrono::milliseconds(500));
  }

 private:
  std::chrono::milliseconds next_{5};
};

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::chrono::milliseconds Milliseconds(absl::Duration duration) {
  return absl::ToChronoMilliseconds(duration);
}

// The keys of an attempt in a launcher's store, as in torchrun's.
std::string AttemptPrefix(const std::string& attempt) {
  return absl::StrCat("/worker/attempt_", attempt);
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
    throw std::system_error(errno, std::generic_category(), "listen on 127.0.0.1");
  return {fd, ntohs(address.sin_port)};
}

// A connection to the job's store, which this call serves if `serve`. A launcher's store has keys of
// earlier attempts. Rank 0's is new, and the agents of a job may count its attempts differently, as
// where one was started again itself.
StorePtr OpenStore(const Rendezvous& at, absl::Duration timeout, bool serve) {
  c10d::TCPStoreOptions options;
  options.port = at.port;
  options.isServer = serve;
  options.numWorkers = at.world_size;
  options.waitWorkers = false;  // Meet() waits, and names the missing ranks
  options.multiTenant = serve;
  options.timeout = Milliseconds(timeout);
  StorePtr store = compat::OpenStore<c10d::TCPStore>(at.address, options);
  if (!at.hosted) return store;
  return c10::make_intrusive<c10d::PrefixStore>(AttemptPrefix(at.attempt), std::move(store));
}

// The first connection; rank 0 serves the store of a job that has no launcher.
absl::StatusOr<StorePtr> ReachStore(const Rendezvous& at, absl::Duration timeout) {
  const bool serve = at.rank == 0 && !at.hosted;
  std::string error;
  if (serve && PortIsTaken(at.port)) {
    error = PortTakenError(at.port);
  } else {
    try {
      return OpenStore(at, timeout, serve);
    } catch (const std::exception& failure) {
      error = ExplainNoStore(at, timeout, ReasonOf(failure));
    }
  }
  return absl::UnavailableError(error);
}

// "rank 1", "ranks 1, 2"; the first few of many.
std::string Listed(const std::vector<int>& ranks) {
  constexpr size_t kShown = 10;
  const size_t shown = std::min(ranks.size(), kShown);
  return absl::StrCat(
      ranks.size() == 1 ? "rank " : "ranks ",
      absl::StrJoin(ranks.begin(), ranks.begin() + shown, ", "),
      shown < ranks.size() ? absl::StrCat(" and ", ranks.size() - shown, " more") : "");
}

// Claims this rank's number in a job of `at.world_size` ranks.
//   kFailedPrecondition  another process has the number, or another rank has another world size
absl::Status Claim(c10d::Store& store, const Rendezvous& at) {
  if (store.add(absl::StrCat("claimed/", at.rank), 1) > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "another process is rank ", at.rank, " of the job at ", at.address, ":", at.port,
        " already: give each process its own RANK, and each job its own MASTER_PORT; MASTER_ADDR "
        "must be the host of rank 0"));
  }
  const std::string mine = absl::StrCat(at.world_size);
  const std::vector<uint8_t> first = store.compareSet("world_size", {}, {mine.begin(), mine.end()});
  const std::string theirs(first.begin(), first.end());
  if (theirs == mine) return absl::OkStatus();
  const std::string error =
      absl::StrCat("WORLD_SIZE is ", mine, " for rank ", at.rank, " and ", theirs,
                   " for the rank that came first: give all ranks of the job at ", at.address, ":",
                   at.port, " the same");
  store.set(kRefused, std::vector<uint8_t>(error.begin(), error.end()));
  return absl::FailedPreconditionError(error);
}

// Waits until all ranks have connected. Returns the backend of rank 0, "nccl" or "gloo". The error
// names the missing ranks.
//   kFailedPrecondition  see Claim(); the message is that of the rank that differs
absl::StatusOr<std::string> Meet(c10d::Store& store, const Rendezvous& at,
                                 const GroupOptions& options) {
  const auto here = [](int rank) { return absl::StrCat("here/", rank); };
  const std::string comm = options.placement.nccl ? "nccl" : "gloo";
  if (absl::Status claimed = Claim(store, at); !claimed.ok()) return claimed;
  store.set(here(at.rank), std::vector<uint8_t>(comm.begin(), comm.end()));
  const auto deadline = SteadyClock::now() + Milliseconds(options.timeout);
  Pauses pauses;
  for (int64_t arrived = store.add("arrived", 1); arrived < at.world_size;
       arrived = store.add("arrived", 0)) {
    if (store.check({kRefused})) {
      const std::vector<uint8_t> error = store.get(kRefused);
      return absl::FailedPreconditionError(std::string(error.begin(), error.end()));
    }
    if (SteadyClock::now() >= deadline) {
      std::vector<int> missing;
      for (int rank = 0; rank < at.world_size; ++rank) {
        if (!store.check({here(rank)})) missing.push_back(rank);
      }
      return absl::UnavailableError(
          absl::StrCat(Listed(missing), " of ", at.world_size, " did not connect to ", at.address,
                       ":", at.port, " within ", absl::FormatDuration(options.timeout),
                       "; check that they run and can reach MASTER_ADDR"));
    }
    pauses.Wait();
  }
  const std::vector<uint8_t> of_rank_0 = store.get(here(0));
  return std::string(of_rank_0.begin(), of_rank_0.end());
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> ConnectGloo(const StorePtr& store, const Rendezvous& at,
                                                       absl::Duration timeout) {
  const auto options = c10d::ProcessGroupGloo::Options::create(Milliseconds(timeout));
  const std::string interfaces = Env("GLOO_SOCKET_IFNAME");
  if (interfaces.empty()) {
    options->devices.push_back(c10d::ProcessGroupGloo::createDefaultDevice());
  } else {
    for (const std::string& name : std::vector<std::string>(absl::StrSplit(interfaces, ','))) {
      options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForInterface(name));
    }
  }
  options->threads = static_cast<int>(options->devices.size()) * 2;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, at.rank, at.world_size, options);
}

#ifdef USE_C10D_NCCL
c10::intrusive_ptr<c10d::ProcessGroupNCCL> ConnectNccl(const StorePtr& store, const Rendezvous& at,
                                                       const GroupOptions& options) {
  // The options embed NCCL's ncclConfig_t, which grows with each release: we allocate it, and
  // LibTorch fills it.
  const uint64_t built = torch::cuda::nccl::version() >> 16;
  if (built != ((uint64_t{NCCL_MAJOR} << 16) | NCCL_MINOR)) {
    throw std::runtime_error(absl::StrCat("this program was compiled with the nccl.h of NCCL ",
                                          NCCL_MAJOR, ".", NCCL_MINOR, ", but LibTorch has NCCL ",
                                          built >> 16, ".", built & 0xffff));
  }
  c10::cuda::set_device(options.placement.device.index());
  const auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = Milliseconds(options.timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, at.rank, at.world_size, nccl);
}
#endif

// NCCL for tensors on GPUs, Gloo for those on CPUs.
GroupPtr Connect(const StorePtr& store, const Rendezvous& at, const GroupOptions& options) {
  GroupPtr group;
#ifdef USE_C10D_NCCL
  if (options.placement.nccl) {
    compat::AddBackend(group, store, at.rank, at.world_size, c10::kCUDA, "nccl",
                       ConnectNccl(store, at, options));
  }
#endif
  compat::AddBackend(group, store, at.rank, at.world_size, c10::kCPU, "gloo",
                     ConnectGloo(store, at, options.timeout));
  return group;
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
    return absl::UnavailableError(
        absl::StrCat("cannot serve the rendezvous store: ", error.what()));
  }
}

struct ProcessGroup::Impl {
  int rank = 0;
  int world_size = 1;
  c10::Device device = c10::kCPU;
  absl::Duration timeout = absl::InfiniteDuration();
  StorePtr store;  // outlives the group, which holds connections through it
  std::optional<PeerWatch> watch;
  GroupPtr group;  // null in a group of one
};

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

ProcessGroup ProcessGroup::Alone(const Placement& placement) {
  auto impl = std::make_unique<Impl>();
  impl->device = placement.device;
  return ProcessGroup(std::move(impl));
}

absl::StatusOr<ProcessGroup> ProcessGroup::Join(const Rendezvous& at, const GroupOptions& options) {
  if (at.world_size == 1) return Alone(options.placement);
  auto impl = std::make_unique<Impl>();
  try {
    impl->rank = at.rank;
    impl->world_size = at.world_size;
    impl->device = options.placement.device;
    impl->timeout = options.timeout;
    absl::StatusOr<StorePtr> store = ReachStore(at, options.timeout);
    if (!store.ok()) return store.status();
    impl->store = *std::move(store);
    const absl::StatusOr<std::string> comm = Meet(*impl->store, at, options);
    if (!comm.ok()) return comm.status();
    if ((*comm == "nccl") != options.placement.nccl) {
      return absl::FailedPreconditionError(
          absl::StrCat("rank ", at.rank, " uses ", options.placement.nccl ? "NCCL" : "Gloo",
                       ", but rank 0 uses ", *comm == "nccl" ? "NCCL" : "Gloo",
                       "; give every rank a GPU, or pass --comm gloo to all of them"));
    }
    impl->watch.emplace(OpenStore(at, options.timeout, /*serve=*/false),
                        at.hosted ? "the launcher" : "rank 0", at.rank, at.world_size);
    impl->group = Connect(impl->store, at, options);
    return ProcessGroup(std::move(impl));
  } catch (const std::exception& error) {
    // A rank that fails after the rendezvous reports why. The others wait for its connection.
    const std::string reason = ReasonOf(error);
    const std::string blame = impl->watch ? impl->watch->Blame(reason) : "";
    return absl::UnavailableError(absl::StrCat(
        "rank ", at.rank, " of ", at.world_size, " cannot join the process group at ", at.address,
        ":", at.port, ": ", blame.empty() ? reason : absl::StrCat(blame, ": ", reason)));
  }
}

int ProcessGroup::rank() const { return impl_->rank; }
int ProcessGroup::world_size() const { return impl_->world_size; }
c10::Device ProcessGroup::device() const { return impl_->device; }
c10d::ProcessGroup* ProcessGroup::c10d_group() const { return impl_->group.get(); }

void ProcessGroup::Sum(at::Tensor& values) {
  if (!impl_->group) return;
  CountCollective();
  std::vector<at::Tensor> tensors{values};
  impl_->group->allreduce(tensors)->wait();
}

void ProcessGroup::Max(at::Tensor& values) {
  if (!impl_->group) return;
  CountCollective();
  std::vector<at::Tensor> tensors{values};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  impl_->group->allreduce(tensors, options)->wait();
}

at::Tensor ProcessGroup::Gather(const at::Tensor& mine) {
  at::Tensor rows = at::zeros({world_size(), mine.numel()}, mine.options());
  rows[rank()].copy_(mine);
  Sum(rows);  // the other ranks' part of a row is 0
  return rows;
}

bool ProcessGroup::Any(bool here) {
  at::Tensor any = at::full({1}, here ? 1 : 0, at::kInt);
  Max(any);
  return any.item<int>() != 0;
}

void ProcessGroup::Barrier() {
  // By a CPU tensor, that is by Gloo: NCCL's barrier waits for nothing but the GPU.
  at::Tensor nothing = at::zeros({1});
  Sum(nothing);
}

std::string ProcessGroup::FromRankZero(const std::string& key,
                                       const std::function<std::string()>& make) {
  if (!impl_->group) return make();
  if (impl_->rank == 0) {
    const std::string text = make();
    impl_->store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
    return text;
  }
  Pauses pauses;
  while (!impl_->store->check({key})) {
    const std::string lost = impl_->watch->Lost(0, impl_->timeout);
    if (!lost.empty()) {
      throw RankError(RankError::kAnotherRank,
                      absl::StrCat("waiting for ", key, " of rank 0: ", lost));
    }
    pauses.Wait();
  }
  const std::vector<uint8_t> text = impl_->store->get(key);
  return {text.begin(), text.end()};
}

void ProcessGroup::Leave() {
  if (!impl_->group) return;
  Barrier();
  compat::Shutdown(*impl_->group);
}

void ProcessGroup::CountCollective() {
  if (impl_->watch) impl_->watch->CountCollective();
}

void ProcessGroup::ReportFailure(const std::string& error) const {
  if (impl_->watch) impl_->watch->ReportFailure(error);
}

std::string ProcessGroup::Blame(const std::string& error) const {
  return impl_->watch ? impl_->watch->Blame(error) : "";
}

}  // namespace ranklog::trainer
