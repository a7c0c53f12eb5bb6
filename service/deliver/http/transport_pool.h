// A transport that many threads share.

#ifndef SERVICE_DELIVER_HTTP_TRANSPORT_POOL_H_
#define SERVICE_DELIVER_HTTP_TRANSPORT_POOL_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

// Passes each request to a free transport: the one that was used last, because its connections are
// the newest. Waits if no transport is free. Thread-safe.
class TransportPool : public Transport {
 public:
  explicit TransportPool(std::vector<std::unique_ptr<Transport>> transports);

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Does not wait for a free one.
  std::unique_ptr<Exchange> Begin(HttpRequest request) override {
    return transports_.front()->Begin(std::move(request));
  }
  void Cancel() override;

 private:
  const std::vector<std::unique_ptr<Transport>> transports_;
  absl::Mutex mutex_;
  std::vector<Transport*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_TRANSPORT_POOL_H_
