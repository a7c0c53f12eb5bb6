#include "service/deliver/http/transport_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <utility>

#include "absl/synchronization/mutex.h"
#include "tests/support/status_matchers.h"

namespace ranklog::deliver {
namespace {

// Requests in flight. Each waits until the test lets its transport answer.
class Meeting {
 public:
  void Wait(int transport) {
    absl::MutexLock lock(&mutex_);
    ++there_;
    const auto released = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return released_.count(transport) > 0;
    };
    mutex_.Await(absl::Condition(&released));
    --there_;
    released_.erase(transport);
  }
  void AwaitBoth() {
    absl::MutexLock lock(&mutex_);
    const auto both = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return there_ == 2; };
    mutex_.Await(absl::Condition(&both));
  }
  void Release(int transport) {
    absl::MutexLock lock(&mutex_);
    released_.insert(transport);
  }

 private:
  absl::Mutex mutex_;
  int there_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<int> released_ ABSL_GUARDED_BY(mutex_);
};

// Answers with its own number.
class NumberedTransport : public Transport {
 public:
  NumberedTransport(int number, Meeting* meeting) : number_(number), meeting_(meeting) {}

  absl::StatusOr<HttpResponse> Send(const HttpRequest& request) override {
    if (cancelled_) return absl::UnavailableError("cancelled");
    if (request.url == "meet") meeting_->Wait(number_);
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
    const auto answer = pool_.Send(request);
    EXPECT_OK(answer);
    return answer.ok() ? answer->code : 0;
  }

  Meeting meeting_;
  TransportPool pool_{Two(&meeting_)};
};

TEST_F(TransportPoolTest, ReusesMostRecentlyUsedTransport) {
  for (const int last : {1, 2}) {
    std::thread one([&] { CodeOf("meet"); });
    std::thread other([&] { CodeOf("meet"); });
    meeting_.AwaitBoth();
    meeting_.Release(3 - last);
    EXPECT_EQ(CodeOf("x"), 3 - last) << "the only free transport";
    meeting_.Release(last);
    one.join();
    other.join();
    EXPECT_EQ(CodeOf("x"), last);
  }
}

TEST_F(TransportPoolTest, ConcurrentRequestsUseDifferentTransports) {
  int one = 0, other = 0;
  std::thread first([&] { one = CodeOf("meet"); });
  std::thread second([&] { other = CodeOf("meet"); });
  meeting_.AwaitBoth();
  for (const int transport : {1, 2}) meeting_.Release(transport);
  first.join();
  second.join();
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
  EXPECT_THAT(pool_.Send({}), testing::StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace ranklog::deliver
