#include "service/deliver/http/transport_pool.h"

#include <utility>

#include "service/base/pulse.h"

namespace ranklog::deliver {

TransportPool::TransportPool(std::vector<std::unique_ptr<Transport>> transports)
    : transports_(std::move(transports)) {
  absl::MutexLock lock(&mutex_);
  for (const auto& transport : transports_) free_.push_back(transport.get());
}

absl::StatusOr<HttpResponse> TransportPool::Send(const HttpRequest& request) {
  Transport* transport = nullptr;
  {
    absl::MutexLock lock(&mutex_);
    const auto any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !free_.empty(); };
    const Pulse::Rest rest;  // the worker that uses the transport reports progress
    mutex_.Await(absl::Condition(&any));
    transport = free_.back();
    free_.pop_back();
  }
  absl::StatusOr<HttpResponse> answer = transport->Send(request);
  absl::MutexLock lock(&mutex_);
  free_.push_back(transport);
  return answer;
}

void TransportPool::Cancel() {
  for (const auto& transport : transports_) transport->Cancel();
}

}  // namespace ranklog::deliver
