#include "service/peer/homes.h"

#include <chrono>
#include <utility>

#include "service/base/clock.h"

namespace ranklog::peer {

Homes::~Homes() {
  absl::MutexLock lock(&calls_->mutex);
  for (const auto& [key, call] : calls_->open) call->context.TryCancel();
  Calls* const calls = calls_.get();
  const auto none = [calls]()
                        ABSL_EXCLUSIVE_LOCKS_REQUIRED(calls->mutex) { return calls->open.empty(); };
  calls_->mutex.Await(absl::Condition(&none));
}

void Homes::Push(const HostPort& address, const v1::PushRequest& request, Done done,
                 absl::Duration limit) {
  auto call = std::make_shared<Call>();
  call->request = request;
  call->context.set_deadline(std::chrono::system_clock::now() + absl::ToChronoMilliseconds(limit));
  std::shared_ptr<v1::Peer::Stub> stub;  // also while it is replaced
  absl::Status failed;
  {
    absl::MutexLock lock(&calls_->mutex);
    Home& home = homes_[address.Text()];
    const absl::Time now = SteadyNow();
    if (home.stub == nullptr || now - home.made >= renew_) {
      auto channel = connect_(address);
      if (channel.ok()) home = {v1::Peer::NewStub(*channel), now};
      failed = channel.status();
    }
    stub = home.stub;
    if (failed.ok()) calls_->open[call.get()] = call;
  }
  if (!failed.ok()) return done(failed, {});
  call->stub = stub;
  stub->async()->Push(
      &call->context, &call->request, &call->reply,
      [calls = calls_, call = call.get(), done = std::move(done)](const grpc::Status& status) {
        std::shared_ptr<Call> ended;
        {
          absl::MutexLock lock(&calls->mutex);
          ended = std::move(calls->open[call]);
        }
        absl::Status result;
        if (!status.ok()) {
          result = absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                                status.error_message());
        }
        done(std::move(result), std::move(ended->reply));
        absl::MutexLock lock(&calls->mutex);
        calls->open.erase(call);
      });
}

}  // namespace ranklog::peer
