// Debian's libtorch-dev 1.13 leaves out this header, which c10d's reducer.hpp includes for two
// names. The Reducer holds the real type only through the shared pointer, so its layout does not
// depend on ours. The real header, where there is one, is found first.

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
