#include "service/deliver/wandb/run_requests.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/deliver/retry.h"
#include "service/deliver/wandb/base_url.h"
#include "service/deliver/wandb/masking.h"
#include "service/deliver/wandb/server_json.h"
#include "service/deliver/wandb/wandb_destination.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr char kUserAgent[] = "ranklog/" RANKLOG_VERSION;

}  // namespace

RunRequests::RunRequests(Transport* transport, const CredentialStore* credentials,
                         std::string address, std::string project, Options options)
    : transport_(transport),
      credentials_(credentials),
      server_(Wandb().CheckUrl(address)),
      project_(std::move(project)),
      options_(std::move(options)) {}

void RunRequests::SetAddress(absl::string_view address) { server_ = Wandb().CheckUrl(address); }

absl::StatusOr<Credential> RunRequests::FindKey(const std::set<Credential>& refused) const {
  RETURN_IF_ERROR(server_.status());
  return credentials_->Find(job_, {.destination = Wandb(), .server = *server_, .project = project_},
                            refused);
}

bool RunRequests::HasKey() const { return FindKey({}).ok(); }

bool RunRequests::HasNewKey() const {
  return awaits_key_ && !job_.empty() && FindKey(refused_keys_).ok();
}

bool RunRequests::TakeOtherKey() { return std::exchange(other_key_, false); }

StepResult::Exchange RunRequests::TakeExchange() {
  return std::exchange(exchange_, StepResult::Exchange::kNone);
}

absl::StatusOr<HttpResponse> RunRequests::Post(Request request) {
  const bool stream = request.stream.has_value();
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
  if (!key.ok()) return blocked(Wandb().WithLoginCommand(key.status(), *server_));
  HttpRequest http;
  http.url = stream ? FileStreamUrl(*server_, request.stream->entity, request.stream->project,
                                    request.stream->run_id)
                    : GraphqlUrl(*server_);
  http.headers = {{"User-Agent", options_.user_agent.empty() ? kUserAgent : options_.user_agent},
                  {"Content-Type", "application/json"}};
  http.variables = credentials_->VariablesOf(job_);
  const auto variable = [&](const char* name, const std::string& own) {
    if (!http.variables.has_value()) return own;
    const auto found = http.variables->find(name);
    return found == http.variables->end() ? own : found->second;
  };
  const std::string username = variable("WANDB_USERNAME", options_.username);
  const std::string user_email = variable("WANDB_USER_EMAIL", options_.user_email);
  if (!stream && !username.empty()) http.headers.push_back({"X-WANDB-USERNAME", username});
  if (!stream && !user_email.empty()) {
    http.headers.push_back({"X-WANDB-USER-EMAIL", user_email});
  }
  http.basic_user = "api";
  http.basic_password = key->secret;
  http.body = std::move(request.body);
  http.gzip = request.gzip;
  http.max_answer = request.max_answer;
  http.timeout = stream ? options_.stream_timeout : options_.graphql_timeout;
  absl::StatusOr<HttpResponse> answer = transport_->Post(http);
  exchange_ = answer.ok() ? StepResult::Exchange::kAnswered : StepResult::Exchange::kUnanswered;
  MaskKey(key->secret, &answer);
  // An answer from another program means that the server did not receive the request, whatever its
  // code.
  if (Classify(answer) == Outcome::kAccepted) {
    if (const absl::Status ours = CheckAnswer(*answer); !ours.ok()) {
      answer = absl::Status(ours.code(),
                            absl::StrCat(ours.message(), kToContinue,
                                         "check the address; to correct it, ", kCorrectAddress));
    }
  }
  // The next source may have a valid key.
  if (answer.ok() && answer->code == HttpResponse::kUnauthorized) {
    awaits_key_ = true;
    refused_keys_.insert(*key);
    other_key_ = FindKey(refused_keys_).ok();
  }
  return answer;
}

}  // namespace ranklog::deliver::wandb
