#ifndef TESTS_SUPPORT_FAKE_TRANSPORT_H_
#define TESTS_SUPPORT_FAKE_TRANSPORT_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/deliver/http/transport.h"

namespace ranklog::testing {

// Keeps every request. Answers with the values given to AnswerNext(), in order, and then with
// `usually`.
class FakeTransport : public deliver::Transport {
 public:
  using Answer = absl::StatusOr<deliver::HttpResponse>;

  explicit FakeTransport(std::function<Answer(const deliver::HttpRequest&)> usually)
      : usually_(std::move(usually)) {}

  static deliver::HttpResponse Code(int code, const std::string& body = "{}") {
    deliver::HttpResponse response;
    response.code = code;
    response.body = body;
    return response;
  }
  void AnswerNext(Answer answer) { next_.push_back(std::move(answer)); }

  Answer Send(const deliver::HttpRequest& request) override {
    sent_.push_back(request);
    if (next_.empty()) return usually_(request);
    Answer answer = std::move(next_.front());
    next_.pop_front();
    return answer;
  }

  const std::vector<deliver::HttpRequest>& sent() const { return sent_; }

 private:
  std::function<Answer(const deliver::HttpRequest&)> usually_;
  std::deque<Answer> next_;
  std::vector<deliver::HttpRequest> sent_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_FAKE_TRANSPORT_H_
