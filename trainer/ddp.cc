#include "trainer/ddp.h"

#include <algorithm>
#include <limits>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "trainer/torch_compat.h"

namespace ranklog::trainer {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
constexpr int64_t kFirstBucketBytes = 1 << 20;  // small, so that the first all-reduce starts early
constexpr int64_t kBucketBytes = 25 << 20;      // large enough to fill the network
constexpr size_t kBroadcastBytes = 250 << 20;

// One bucket: the Reducer makes its own after the first step, in the order in which gradients
// arrive.
compat::ReducerShape FirstShape(const std::vector<at::Tensor>& parameters) {
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<size_t>::max()},
      std::vector<bool>(parameters.size(), /*sparse=*/false));
  std::reverse(buckets.begin(), buckets.end());
  std::reverse(limits.begin(), limits.end());
  return {buckets, limits, kBucketBytes, kFirstBucketBytes};
}

}  // namespace

Ddp::Ddp(std::vector<at::Tensor> parameters, ProcessGroup& group) : group_(&group) {
  if (group.c10d_group() == nullptr) return;
  const auto shared = GroupPtr::reclaim_copy(group.c10d_group());
  c10d::verify_params_across_processes(shared, parameters, {});
  std::vector<at::Tensor> detached;
  for (const at::Tensor& parameter : parameters) detached.push_back(parameter.detach());
  c10d::broadcast_coalesced(shared, detached, kBroadcastBytes, /*rank=*/0);
  reducer_ = compat::MakeReducer<c10d::Reducer>(parameters, shared, FirstShape(parameters));
}

Ddp::~Ddp() = default;

void Ddp::BeforeForward() {
  if (reducer_ == nullptr || !sync_) return;
  group_->CountCollective();
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();  // a collective, once
}

void Ddp::BeforeBackward() {
  if (reducer_ != nullptr && sync_) reducer_->prepare_for_backward({});
}

}  // namespace ranklog::trainer
