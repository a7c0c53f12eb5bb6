// Keys and servers for tests of daemons that talk to each other.

#ifndef TESTS_SERVICE_PEER_PEER_FIXTURE_H_
#define TESTS_SERVICE_PEER_PEER_FIXTURE_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "ranklog/v1/ranklog.grpc.pb.h"
#include "service/peer/tls/peer_credentials.h"
#include "service/peer/tls/peer_key.h"
#include "service/peer/tls/peer_listener.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// Stands for the calls between daemons: answers each call, and counts it.
class CountingService final : public v1::Control::CallbackService {
 public:
  ~CountingService() override {
    if (late_.joinable()) late_.join();
  }
  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* call, const v1::StatusRequest*,
                                   v1::StatusReply*) override {
    ++calls;
    grpc::ServerUnaryReactor* const reactor = call->DefaultReactor();
    if (delay == absl::ZeroDuration()) {
      reactor->Finish(grpc::Status::OK);
    } else {
      late_ = std::thread([reactor, this] {
        absl::SleepFor(delay);
        reactor->Finish(grpc::Status::OK);
      });
    }
    return reactor;
  }

  std::atomic<int> calls{0};
  absl::Duration delay = absl::ZeroDuration();  // for one call

 private:
  std::thread late_;
};

class PeerTest : public ::testing::Test {
 protected:
  peer::PeerKey NewKey(const std::string& name, absl::Time now = absl::Now()) {
    EXPECT_OK(peer::PeerKey::Make(dir_.File(name), now));
    auto key = peer::PeerKey::Load(dir_.File(name));
    EXPECT_OK(key);
    return *std::move(key);
  }
  peer::PeerKey SameKey(const std::string& name) { return *peer::PeerKey::Load(dir_.File(name)); }
  void Listen(peer::PeerListener::Options options = {}) { Listen(std::move(options), key_); }
  void Listen(peer::PeerListener::Options options, const peer::PeerKey& key) {
    if (options.address.host.empty()) options.address.host = "127.0.0.1";
    auto listener = peer::PeerListener::Start(std::move(options), &key, &service_, &counters_);
    ASSERT_OK(listener);
    listener_ = *std::move(listener);
  }
  HostPort address() const { return {"127.0.0.1", listener_->address().port}; }

  // One call over a new channel.
  grpc::Status Call(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                    grpc::ChannelArguments arguments = {}) {
    arguments.SetSslTargetNameOverride(peer::kPeerName);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return Call(grpc::CreateCustomChannel(address().Text(), credentials, arguments));
  }
  grpc::Status Call(const std::shared_ptr<grpc::Channel>& channel, bool waits = false) {
    const auto stub = v1::Control::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    context.set_wait_for_ready(waits);
    v1::StatusReply reply;
    return stub->Status(&context, {}, &reply);
  }
  grpc::Status CallWith(const peer::PeerKey& key, absl::Time now = absl::Now()) {
    auto channel = peer::MakePeerChannel(key, address(), now);
    EXPECT_OK(channel);
    return Call(*channel);
  }

  TempDir dir_;
  const peer::PeerKey key_ = NewKey("key");
  peer::PeerKey old_;  // outlives the listener
  CountingService service_;
  peer::PeerListener::Counters counters_;
  std::unique_ptr<peer::PeerListener> listener_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_PEER_PEER_FIXTURE_H_
