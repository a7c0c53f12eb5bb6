// Debian's libtorch-dev 1.13 lacks this header, which c10d's reducer.hpp includes for two names.
// The Reducer uses the real type only through the shared pointer, so its layout does not depend on
// this one. If the real header exists, the compiler finds it first.

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

namespace torch {
namespace distributed {
namespace autograd {

struct DistAutogradContext {
  using GradCallback = std::function<bool(at::Tensor&)>;
};
using ContextPtr = std::shared_ptr<DistAutogradContext>;

}  // namespace autograd
}  // namespace distributed
}  // namespace torch
