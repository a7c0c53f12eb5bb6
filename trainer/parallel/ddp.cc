#include "trainer/parallel/ddp.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <utility>

#include "trainer/base/torch_compat.h"

namespace ranklog::trainer {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
constexpr int64_t kFirstBucketBytes = 1 << 20;  // small, so that the first all-reduce starts early
constexpr int64_t kBucketBytes = 25 << 20;      // large enough to fill the network
constexpr size_t kBroadcastBytes = 250 << 20;

// One bucket, which the Reducer replaces at once: see MakeReducer().
compat::ReducerShape FirstShape(const std::vector<at::Tensor>& parameters) {
  const auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<size_t>::max()},
      std::vector<bool>(parameters.size(), /*sparse=*/false));
  return {buckets, limits, kBucketBytes, kFirstBucketBytes};
}

// All steps, also the first one after a resume, must sum and divide in the same way: over three
// ranks or more, another order or a product with 1/3 changes the last bit.
std::shared_ptr<c10d::Reducer> MakeReducer(std::vector<at::Tensor> parameters,
                                           const GroupPtr& group) {
  // The gradient of the last parameter arrives first.
  std::reverse(parameters.begin(), parameters.end());
  // The gradients must exist. Otherwise the first step would multiply them into their bucket, and
  // the later steps would divide them in place.
  for (at::Tensor& parameter : parameters) parameter.mutable_grad() = at::zeros_like(parameter);
  auto reducer = compat::MakeReducer<c10d::Reducer>(parameters, group, FirstShape(parameters));
  // Without this the Reducer would make its buckets after the first step, in the order in which
  // the gradients arrived.
  reducer->push_rebuilt_params_for_all_indices();
  reducer->rebuild_buckets();
  return reducer;
}

}  // namespace

Ddp::Ddp(std::vector<at::Tensor> parameters, ProcessGroup& group) : group_(&group) {
  if (group.c10d_group() == nullptr) return;
  const auto shared = GroupPtr::reclaim_copy(group.c10d_group());
  c10d::verify_params_across_processes(shared, parameters, {});
  std::vector<at::Tensor> detached;
  for (const at::Tensor& parameter : parameters) detached.push_back(parameter.detach());
  c10d::broadcast_coalesced(shared, detached, kBroadcastBytes, /*rank=*/0);
  reducer_ = MakeReducer(std::move(parameters), shared);
}

Ddp::~Ddp() = default;

void Ddp::BeforeForward() {
  if (reducer_ == nullptr || !sync_) return;
  group_->CountCollective();
  reducer_->prepare_for_forward();
}

void Ddp::BeforeBackward() {
  if (reducer_ != nullptr && sync_) reducer_->prepare_for_backward({});
}

}  // namespace ranklog::trainer
