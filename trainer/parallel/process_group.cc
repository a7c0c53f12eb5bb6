#include "trainer/parallel/process_group.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "trainer/base/rank_error.h"
#include "trainer/base/torch_compat.h"
#include "trainer/parallel/peer_watch.h"
#include "trainer/parallel/rendezvous_store.h"

#ifdef USE_C10D_NCCL
#include <c10/cuda/CUDAFunctions.h>
#include <nccl.h>
#include <torch/csrc/cuda/nccl.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace ranklog::trainer {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

c10::intrusive_ptr<c10d::ProcessGroupGloo> ConnectGloo(const StorePtr& store, const Rendezvous& at,
                                                       absl::Duration timeout) {
  const auto options = c10d::ProcessGroupGloo::Options::create(absl::ToChronoMilliseconds(timeout));
  const char* const interfaces = std::getenv("GLOO_SOCKET_IFNAME");
  if (interfaces == nullptr || *interfaces == 0) {
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
  // The options embed NCCL's ncclConfig_t, which grows with each release: this program allocates
  // it, and LibTorch fills it.
  const uint64_t built = torch::cuda::nccl::version() >> 16;
  if (built != ((uint64_t{NCCL_MAJOR} << 16) | NCCL_MINOR)) {
    throw std::runtime_error(absl::StrCat("this program was compiled with the nccl.h of NCCL ",
                                          NCCL_MAJOR, ".", NCCL_MINOR, ", but LibTorch has NCCL ",
                                          built >> 16, ".", built & 0xffff));
  }
  c10::cuda::set_device(options.placement.device.index());
  const auto nccl = c10d::ProcessGroupNCCL::Options::create();
  nccl->timeout = absl::ToChronoMilliseconds(options.timeout);
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

struct ProcessGroup::Impl {
  int rank = 0;
  int world_size = 1;
  c10::Device device = c10::kCPU;
  absl::Duration timeout = absl::InfiniteDuration();
  StorePtr store;  // outlives the group, which holds connections through it
  std::optional<PeerWatch> watch;
  GroupPtr group;  // null in a group of one that did not connect
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
  if (at.world_size == 1 && !options.connect_alone) return Alone(options.placement);
  auto impl = std::make_unique<Impl>();
  try {
    impl->rank = at.rank;
    impl->world_size = at.world_size;
    impl->device = options.placement.device;
    impl->timeout = options.timeout;
    absl::StatusOr<StorePtr> store = ReachStore(at, options.timeout);
    if (!store.ok()) return store.status();
    impl->store = *std::move(store);
    const absl::StatusOr<std::string> comm =
        Meet(*impl->store, at, options.placement.nccl ? "nccl" : "gloo", options.timeout);
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
    // A rank that fails after the rendezvous reports the reason: the others wait for its
    // connection.
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

bool ProcessGroup::Any(bool here) { return Largest(here ? 1 : 0) != 0; }

int ProcessGroup::Largest(int here) {
  at::Tensor largest = at::full({1}, here, at::kInt);
  Max(largest);
  return largest.item<int>();
}

void ProcessGroup::Barrier() {
  // With a CPU tensor, so by Gloo: NCCL's barrier waits only for the GPU.
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
