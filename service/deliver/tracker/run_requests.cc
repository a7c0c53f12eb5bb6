#include "service/deliver/tracker/run_requests.h"

#include <utility>

#include "service/base/status_macros.h"
#include "service/deliver/masking.h"

namespace ranklog::deliver {

RunRequests::RunRequests(const Destination& destination, Transport* transport,
                         const CredentialStore* credentials, absl::string_view address,
                         std::string project)
    : destination_(destination),
      transport_(transport),
      credentials_(credentials),
      server_(destination.CheckUrl(address)),
      project_(std::move(project)) {}

absl::StatusOr<Credential> RunRequests::FindKey(const std::set<Credential>& refused) const {
  RETURN_IF_ERROR(server_.status());
  return credentials_->Find(
      job_, {.destination = destination_, .server = *server_, .project = project_}, refused);
}

bool RunRequests::HasKey() const { return FindKey({}).ok(); }

bool RunRequests::HasNewKey() const {
  return awaits_key_ && !job_.empty() && FindKey(refused_keys_).ok();
}

bool RunRequests::TakeOtherKey() { return std::exchange(other_key_, false); }

StepResult::Exchange RunRequests::TakeExchange() {
  return std::exchange(exchange_, StepResult::Exchange::kNone);
}

std::string RunRequests::Variable(const std::string& name, const std::string& own) const {
  const auto variables = credentials_->VariablesOf(job_);
  const auto found =
      variables.has_value() ? variables->find(name) : decltype(variables->find(name))();
  return variables.has_value() && found != variables->end() ? found->second : own;
}

absl::StatusOr<HttpResponse> RunRequests::Send(HttpRequest request) {
  const auto blocked = [](const absl::Status& status) {
    return absl::FailedPreconditionError(status.message());
  };
  if (!server_.ok()) return blocked(server_.status());
  absl::StatusOr<Credential> key = FindKey(refused_keys_);
  if (!key.ok() && !refused_keys_.empty()) {
    refused_keys_.clear();  // the server may accept one of them now
    key = FindKey({});
  }
  awaits_key_ = !key.ok();
  if (!key.ok()) return blocked(destination_.WithLoginCommand(key.status(), *server_));
  request.variables = credentials_->VariablesOf(job_);
  destination_.Authorize(*key, &request);
  absl::StatusOr<HttpResponse> answer = transport_->Send(request);
  exchange_ = answer.ok() ? StepResult::Exchange::kAnswered : StepResult::Exchange::kUnanswered;
  MaskKey(*key, request, &answer);
  // The next source may have a valid key.
  if (answer.ok() && destination_.IsKeyRefused(*answer)) {
    awaits_key_ = true;
    refused_keys_.insert(*key);
    other_key_ = FindKey(refused_keys_).ok();
  }
  return answer;
}

absl::StatusOr<HttpResponse> RunRequests::SendOutside(HttpRequest request) {
  request.variables = credentials_->VariablesOf(job_);
  return transport_->Send(request);
}

std::unique_ptr<Exchange> RunRequests::BeginOutside(HttpRequest request) {
  request.variables = credentials_->VariablesOf(job_);
  return transport_->Begin(std::move(request));
}

}  // namespace ranklog::deliver
