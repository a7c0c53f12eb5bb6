#include "trainer/process_group.h"

#include <cstdlib>
#include <string_view>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ranklog::trainer {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;
using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

constexpr std::chrono::minutes kTimeout{ProcessGroup::kTimeoutMinutes};

std::string Env(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// LibTorch 2.x serves the store by libuv unless told otherwise, and throws where it was built
// without.
template <typename StoreOptions>
c10::intrusive_ptr<c10d::TCPStore> OpenStore(const std::string& address, StoreOptions options) {
  if constexpr (requires { options.useLibUV; }) {
    options.useLibUV = Env("USE_LIBUV") != "0";
    try {
      return c10::make_intrusive<c10d::TCPStore>(address, options);
    } catch (const std::exception& error) {
      if (!options.useLibUV ||
          std::string_view(error.what()).find("libuv") == std::string_view::npos)
        throw;
      options.useLibUV = false;
    }
  }
  return c10::make_intrusive<c10d::TCPStore>(address, options);
}

// In 1.13 a backend is a group; in 2.x a group is a front that picks a backend by the tensor's
// device.
template <typename Group, typename Backend>
void AddBackend(c10::intrusive_ptr<Group>& group, const StorePtr& store, const Rendezvous& at,
                c10::DeviceType device, const char* name, c10::intrusive_ptr<Backend> backend) {
  if constexpr (std::is_base_of_v<Group, Backend>) {
    group = std::move(backend);
  } else {
    const auto type = Group::strToBackendType(name);
    if (!group) {  // the first is the default
      group = c10::make_intrusive<Group>(store, at.rank, at.world_size);
      group->setDefaultBackend(type);
    }
    group->setBackend(device, type, std::move(backend));
  }
}

c10::intrusive_ptr<c10d::ProcessGroupGloo> ConnectGloo(const StorePtr& store,
                                                       const Rendezvous& at) {
  const auto options = c10d::ProcessGroupGloo::Options::create(kTimeout);
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

absl::StatusOr<HostedStore> HostedStore::Serve() {
  try {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    return HostedStore(std::make_unique<Impl>(Impl{OpenStore("127.0.0.1", options)}));
  } catch (const std::exception& error) {
    return absl::UnavailableError(
        absl::StrCat("serve the store that the ranks meet at: ", error.what()));
  }
}

struct ProcessGroup::Impl {
  int rank = 0;
  int world_size = 1;
  StorePtr store;  // outlives the group, which holds connections through it
  GroupPtr group;
};

ProcessGroup::ProcessGroup(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

ProcessGroup ProcessGroup::Alone() { return ProcessGroup(std::make_unique<Impl>()); }

absl::StatusOr<ProcessGroup> ProcessGroup::Join(const Rendezvous& at) {
  if (at.world_size == 1) return Alone();
  try {
    c10d::TCPStoreOptions options;
    options.port = at.port;
    options.isServer = at.rank == 0 && !at.hosted;
    options.numWorkers = at.world_size;
    options.waitWorkers = !at.hosted;
    options.multiTenant = !at.hosted;
    options.timeout = kTimeout;
    auto impl = std::make_unique<Impl>();
    impl->rank = at.rank;
    impl->world_size = at.world_size;
    impl->store = c10::make_intrusive<c10d::PrefixStore>(
        absl::StrCat("/worker/attempt_", at.attempt), OpenStore(at.address, options));
    AddBackend(impl->group, impl->store, at, c10::kCPU, "gloo", ConnectGloo(impl->store, at));
    return ProcessGroup(std::move(impl));
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat("rank ", at.rank, " of ", at.world_size,
                                               " could not meet the others at ", at.address, ":",
                                               at.port, ": ", error.what()));
  }
}

int ProcessGroup::rank() const { return impl_->rank; }
int ProcessGroup::world_size() const { return impl_->world_size; }
c10d::ProcessGroup* ProcessGroup::c10d_group() const { return impl_->group.get(); }

void ProcessGroup::Sum(at::Tensor& values) {
  if (!impl_->group) return;
  std::vector<at::Tensor> tensors{values};
  impl_->group->allreduce(tensors)->wait();
}

void ProcessGroup::Max(at::Tensor& values) {
  if (!impl_->group) return;
  std::vector<at::Tensor> tensors{values};
  c10d::AllreduceOptions options;
  options.reduceOp = c10d::ReduceOp::MAX;
  impl_->group->allreduce(tensors, options)->wait();
}

std::string ProcessGroup::FromRankZero(const std::string& key,
                                       const std::function<std::string()>& make) {
  if (!impl_->group) return make();
  if (impl_->rank == 0) {
    const std::string text = make();
    impl_->store->set(key, std::vector<uint8_t>(text.begin(), text.end()));
    return text;
  }
  impl_->store->wait({key}, kTimeout);
  const std::vector<uint8_t> text = impl_->store->get(key);
  return {text.begin(), text.end()};
}

void ProcessGroup::Leave() {
  if (impl_->group) impl_->group->barrier()->wait();
}

}  // namespace ranklog::trainer
