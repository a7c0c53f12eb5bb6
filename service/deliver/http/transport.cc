#include "service/deliver/http/transport.h"

namespace ranklog::deliver {
namespace {

class WholeExchange : public Exchange {
 public:
  WholeExchange(Transport* transport, HttpRequest request)
      : transport_(transport), request_(std::move(request)) {}
  absl::optional<absl::StatusOr<HttpResponse>> Continue(absl::Duration /*most*/) override {
    return transport_->Send(request_);
  }

 private:
  Transport* const transport_;
  const HttpRequest request_;
};

}  // namespace

std::unique_ptr<Exchange> Transport::Begin(HttpRequest request) {
  return std::make_unique<WholeExchange>(this, std::move(request));
}

}  // namespace ranklog::deliver
