// The differences between the C++ APIs of LibTorch 1.13 and of 2.8 and later. All other code of
// this folder compiles with both.
//
// Differences are detected from a type or signature, not from a version number, so that a release
// between two known ones needs no table. Each branch is in a template and depends on its arguments,
// because the compiler also checks a discarded branch that does not depend on them.

#ifndef TRAINER_BASE_TORCH_COMPAT_H_
#define TRAINER_BASE_TORCH_COMPAT_H_

#include <ATen/autocast_mode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_foreach_mul.h>
#include <c10/util/Logging.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ranklog::trainer::compat {

// The lowest severity of the messages that LibTorch prints, from GLOG_INFO, 0, to GLOG_FATAL, 3.
inline int& PrintedSeverity() {
#ifdef C10_USE_GLOG  // Debian's 1.13
  return FLAGS_minloglevel;
#else
  return FLAGS_caffe2_log_level;
#endif
}

// Hides LibTorch's messages while it connects. It would print each attempt, and our own messages
// report why a rank cannot connect. Afterwards its errors are printed, because a thread of NCCL may
// have no other way to report them. glog would also print the errors that are thrown.
// TORCH_CPP_LOG_LEVEL overrides all this, as in PyTorch.
class QuietConnection {
 public:
  QuietConnection() {
    if (chosen_) {
      c10::initLogging();  // applies the variable
    } else {
      PrintedSeverity() = 3;
    }
  }
  ~QuietConnection() {
#ifndef C10_USE_GLOG
    if (!chosen_) PrintedSeverity() = 2;
#endif
  }
  QuietConnection(const QuietConnection&) = delete;
  QuietConnection& operator=(const QuietConnection&) = delete;

 private:
  const bool chosen_ = std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr;
};

// Opens a c10d::TCPStore. By default, 2.x serves it with libuv, and throws if it was built without
// libuv. USE_LIBUV=0 switches libuv off, as in PyTorch.
template <typename TcpStore, typename StoreOptions>
c10::intrusive_ptr<TcpStore> OpenStore(const std::string& address, StoreOptions options) {
  const QuietConnection quiet;
  if constexpr (requires { options.useLibUV; }) {
    const char* use = std::getenv("USE_LIBUV");
    options.useLibUV = use == nullptr || std::string_view(use) != "0";
    try {
      return c10::make_intrusive<TcpStore>(address, options);
    } catch (const std::exception& error) {
      if (!options.useLibUV ||
          std::string_view(error.what()).find("libuv") == std::string_view::npos)
        throw;
      options.useLibUV = false;
    }
  }
  return c10::make_intrusive<TcpStore>(address, options);
}

// Whether a store can take over a socket that the caller has bound. 1.13 cannot.
template <typename StoreOptions>
constexpr bool kTakesSocket = requires(StoreOptions options, int fd) {
  options.masterListenFd = fd;
};

// Serves the store at the socket that `bind` returns, a descriptor and its port.
template <typename StoreOptions, typename Bind>
void ServeAt(StoreOptions& options, Bind bind) {
  if constexpr (kTakesSocket<StoreOptions>) {
    const std::pair<int, uint16_t> bound = bind();
    options.masterListenFd = bound.first;
    options.port = bound.second;
  }
}

// Lets `group` use `backend` for tensors of `device`; the first backend is the default one. In 1.13
// a backend is a group. In 2.x a group picks a backend by the tensor's device.
template <typename Group, typename Store, typename Backend>
void AddBackend(c10::intrusive_ptr<Group>& group, const c10::intrusive_ptr<Store>& store, int rank,
                int world_size, c10::DeviceType device, const char* name,
                c10::intrusive_ptr<Backend> backend) {
  if constexpr (std::is_base_of_v<Group, Backend>) {
    group = std::move(backend);
  } else {
    const auto type = Group::strToBackendType(name);
    if (!group) {
      group = c10::make_intrusive<Group>(store, rank, world_size);
      group->setDefaultBackend(type);
    }
    group->setBackend(device, type, std::move(backend));
  }
}

// Ends the communication of an unused group. With 1.13, the group's destructor ends it.
template <typename Group>
void Shutdown(Group& group) {
  if constexpr (requires { group.shutdown(); }) group.shutdown();
}

struct ReducerShape {
  std::vector<std::vector<size_t>> buckets;  // indices of parameters
  std::vector<size_t> limits;                // of the buckets, in bytes
  int64_t bucket_bytes = 0;
  int64_t first_bucket_bytes = 0;
};

// A c10d::Reducer for parameters that all take part in every loss, whose gradients are views into
// its buckets.
template <typename Reducer, typename Group>
std::shared_ptr<Reducer> MakeReducer(const std::vector<at::Tensor>& parameters,
                                     const c10::intrusive_ptr<Group>& group,
                                     const ReducerShape& shape) {
  using Tensors = std::vector<at::Tensor>;
  using Buckets = std::vector<std::vector<size_t>>;
  using Flags = std::vector<bool>;
  using Names = std::unordered_map<size_t, std::string>;
  using Caps = std::vector<int64_t>;
  using GroupPtr = c10::intrusive_ptr<Group>;
  constexpr bool kFindUnused = false, kGradientIsBucketView = true;
  constexpr bool kSkipUnused = false, kPython = false;
  const Flags sparse(parameters.size(), false);
  if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, GroupPtr, Flags, int64_t, bool,
                                        bool, Names, int64_t, bool, bool, Caps>) {
    return std::make_shared<Reducer>(parameters, shape.buckets, group, sparse, shape.bucket_bytes,
                                     kFindUnused, kGradientIsBucketView, Names{},
                                     shape.first_bucket_bytes, kSkipUnused, kPython,
                                     Caps{});  // 2.11 and newer
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, GroupPtr, Flags, int64_t,
                                               bool, bool, Names, int64_t, bool, bool>) {
    return std::make_shared<Reducer>(parameters, shape.buckets, group, sparse, shape.bucket_bytes,
                                     kFindUnused, kGradientIsBucketView, Names{},
                                     shape.first_bucket_bytes, kSkipUnused,
                                     kPython);  // 2.8 to 2.10
  } else {
    return std::make_shared<Reducer>(parameters, shape.buckets, shape.limits, group, sparse,
                                     shape.bucket_bytes, kFindUnused, kGradientIsBucketView,
                                     Names{}, shape.first_bucket_bytes);  // 1.13
  }
}

// The key of a parameter's state in an optimizer. It is the address; in 1.13, the address as a text.
template <typename States>
auto StateKey(const States&, const at::Tensor& parameter) {
  if constexpr (std::is_same_v<typename States::value_type::first_type, std::string>) {
    std::ostringstream text;
    text << parameter.unsafeGetTensorImpl();
    return text.str();
  } else {
    return static_cast<void*>(parameter.unsafeGetTensorImpl());
  }
}

// Multiplies all tensors by `factor`, a scalar. In 2.x, on a GPU, by few kernels. In 1.13 the
// function for a list has no form for a factor on the device.
template <typename Tensor>
void Scale(const std::vector<Tensor>& tensors, const Tensor& factor) {
  if constexpr (requires {
                  static_cast<void (*)(at::TensorList, const Tensor&)>(&at::_foreach_mul_);
                }) {
    at::_foreach_mul_(tensors, factor);
  } else {
    for (const Tensor& tensor : tensors) tensor.mul_(factor);
  }
}

namespace autocast {

// Free functions are detected by two-phase lookup: the compiler looks up an unqualified name with
// template-dependent arguments late. A function that LibTorch lacks then makes a
// requires-expression false instead of failing the build.
using namespace at::autocast;

// Switches autocast of this thread for `device` on or off.
template <typename Device, typename Type>
void Switch(Device device, bool on, Type dtype) {
  if constexpr (requires { set_autocast_dtype(device, dtype); }) {
    set_autocast_dtype(device, dtype);
    set_autocast_enabled(device, on);
  } else {  // 1.13, which this folder uses on the CPU only
    const std::conditional_t<std::is_same_v<Type, at::ScalarType>, bool, void> enabled = on;
    set_autocast_cpu_dtype(dtype);
    set_cpu_enabled(enabled);
  }
}

}  // namespace autocast
}  // namespace ranklog::trainer::compat

#endif  // TRAINER_BASE_TORCH_COMPAT_H_
