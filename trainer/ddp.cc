#include "trainer/ddp.h"

#include <algorithm>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>
#include <type_traits>
#include <unordered_map>
#include <utility>

namespace ranklog::trainer {
namespace {

using GroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;
using Tensors = std::vector<at::Tensor>;
using Buckets = std::vector<std::vector<size_t>>;
using Flags = std::vector<bool>;
using Names = std::unordered_map<size_t, std::string>;
using Caps = std::vector<int64_t>;

constexpr int64_t kFirstBucketBytes = 1 << 20;  // small, so that the first all-reduce starts early
constexpr int64_t kBucketBytes = 25 << 20;      // large enough to fill the network
constexpr size_t kBroadcastBytes = 250 << 20;

// The Reducer's constructor changed with LibTorch's versions; which one this is shows by what it
// takes. One bucket at first: the Reducer makes its own in the order in which gradients arrive,
// after the first step.
template <typename Reducer = c10d::Reducer>
std::shared_ptr<Reducer> MakeReducer(const Tensors& parameters, const GroupPtr& group) {
  const Flags sparse(parameters.size(), false);
  auto [buckets, limits] = c10d::compute_bucket_assignment_by_size(
      parameters, {std::numeric_limits<size_t>::max()}, sparse);
  std::reverse(buckets.begin(), buckets.end());
  std::reverse(limits.begin(), limits.end());
  constexpr bool kFindUnused = false, kGradientIsBucketView = true;
  if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, GroupPtr, Flags, int64_t, bool,
                                        bool, Names, int64_t, bool, bool,
                                        Caps>) {  // 2.11 and newer
    return std::make_shared<Reducer>(parameters, buckets, group, sparse, kBucketBytes, kFindUnused,
                                     kGradientIsBucketView, Names{}, kFirstBucketBytes, false,
                                     false, Caps{});
  } else if constexpr (std::is_constructible_v<Reducer, Tensors, Buckets, GroupPtr, Flags, int64_t,
                                               bool, bool, Names, int64_t, bool,
                                               bool>) {  // 2.8 to 2.10
    return std::make_shared<Reducer>(parameters, buckets, group, sparse, kBucketBytes, kFindUnused,
                                     kGradientIsBucketView, Names{}, kFirstBucketBytes, false,
                                     false);
  } else {  // 1.13
    return std::make_shared<Reducer>(parameters, buckets, limits, group, sparse, kBucketBytes,
                                     kFindUnused, kGradientIsBucketView, Names{},
                                     kFirstBucketBytes);
  }
}

}  // namespace

Ddp::Ddp(std::vector<at::Tensor> parameters, const ProcessGroup& group) {
  if (group.c10d_group() == nullptr) return;
  const auto shared = GroupPtr::reclaim_copy(group.c10d_group());
  c10d::verify_params_across_processes(shared, parameters, {});
  Tensors detached;
  for (const at::Tensor& parameter : parameters) detached.push_back(parameter.detach());
  c10d::broadcast_coalesced(shared, detached, kBroadcastBytes, /*rank=*/0);
  reducer_ = MakeReducer(parameters, shared);
}

Ddp::~Ddp() = default;

void Ddp::BeforeForward() {
  if (reducer_ == nullptr || !sync_) return;
  reducer_->prepare_for_forward();
  reducer_->rebuild_buckets();  // a collective, once
}

void Ddp::BeforeBackward() {
  if (reducer_ != nullptr && sync_) reducer_->prepare_for_backward({});
}

}  // namespace ranklog::trainer
