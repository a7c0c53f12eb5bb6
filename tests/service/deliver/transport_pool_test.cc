#include "service/deliver/transport_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "tests/support/status_matchers.h"

namespace ranklog::deliver {
namespace {

// Requests in flight that wait for each other.
struct Meeting {
  absl::Mutex mutex;
  int there ABSL_GUARDED_BY(mutex) = 0;

  void Of(int wanted) {
    absl::MutexLock lock(&mutex);
    ++there;
    const auto all = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) { return there >= wanted; };
    mutex.Await(absl::Condition(&all));
  }
};

// Answers with its own number.
class NumberedTransport : public Transport {
 public:
  NumberedTransport(int number, Meeting* meeting) : number_(number), meeting_(meeting) {}

  absl::StatusOr<HttpResponse> Post(const HttpRequest& request) override {
    if (cancelled_) return absl::UnavailableError("cancelled");
    if (request.url == "meet") meeting_->Of(2);
    HttpResponse response;
    response.code = number_;
    return response;
  }
  void Cancel() override { cancelled_ = true; }

 private:
  const int number_;
  Meeting* const meeting_;
  bool cancelled_ = false;
};

class TransportPoolTest : public ::testing::Test {
 protected:
  static std::vector<std::unique_ptr<Transport>> Two(Meeting* meeting) {
    std::vector<std::unique_ptr<Transport>> transports;
    for (int i : {1, 2}) transports.push_back(std::make_unique<NumberedTransport>(i, meeting));
    return transports;
  }
  int CodeOf(const std::string& url) {
    HttpRequest request;
    request.url = url;
    const auto answer = pool_.Post(request);
    EXPECT_OK(answer);
    return answer.ok() ? answer->code : 0;
  }

  Meeting meeting_;
  TransportPool pool_{Two(&meeting_)};
};

TEST_F(TransportPoolTest, SequentialRequestsReuseTransport) {
  const int first = CodeOf("x");
  EXPECT_EQ(CodeOf("x"), first);
}

TEST_F(TransportPoolTest, ConcurrentRequestsUseDifferentTransports) {
  int other = 0;
  std::thread thread([&] { other = CodeOf("meet"); });
  const int one = CodeOf("meet");
  thread.join();
  EXPECT_EQ(one + other, 3);
}

TEST_F(TransportPoolTest, MoreRequestsThanTransportsWait) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 100; ++n) EXPECT_THAT(CodeOf("x"), ::testing::AnyOf(1, 2));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(TransportPoolTest, CancelsThemAll) {
  pool_.Cancel();
  EXPECT_THAT(pool_.Post({}), testing::StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace ranklog::deliver
