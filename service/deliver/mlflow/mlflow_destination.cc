#include "service/deliver/mlflow/mlflow_destination.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/url.h"
#include "service/deliver/masking.h"
#include "service/deliver/mlflow/api.h"
#include "service/deliver/mlflow/cursor.h"
#include "service/deliver/mlflow/mlflow_delivery.h"

namespace ranklog::deliver::mlflow {
namespace {

constexpr char kUser[] = "MLFLOW_TRACKING_USERNAME";
constexpr char kPassword[] = "MLFLOW_TRACKING_PASSWORD";
constexpr char kToken[] = "MLFLOW_TRACKING_TOKEN";
constexpr char kNoUser[] = "user";  // what `ranklog login` writes for a token
constexpr char kInsecureTls[] = "tracking_insecure_tls";
constexpr char kServerCert[] = "tracking_server_cert_path";
constexpr char kClientCert[] = "tracking_client_cert_path";
constexpr char kVerify[] =
    R"(  mlflow By MLflow's REST API: every point of every row (key, step, time, value). Once the run's end is delivered, the
         params are compared. Not compared: system metrics, tags, files.
)";

// The official client refuses both of the first two; here, the server is verified then.
void SetTrustBy(const std::function<std::string(const char*)>& setting, HttpRequest* request) {
  const std::string insecure = absl::AsciiStrToLower(setting(kInsecureTls));
  request->ca_file = setting(kServerCert);
  request->client_certificate = setting(kClientCert);
  request->insecure_tls = request->ca_file.empty() && (insecure == "true" || insecure == "1");
  request->plain_http_without_key = true;  // the usual server of a cluster
}

}  // namespace

MlflowDestination::MlflowDestination()
    : Destination({.kind = kKind,
                   .name = "MLflow",
                   .url_setting = "tracking_uri",
                   .public_url = "",
                   .other_settings = {"experiment_name", "experiment_id", "run_id", "run_name",
                                      kInsecureTls, kServerCert, kClientCert},
                   .key_variable = kToken,
                   .user_variable = kUser,
                   .key_is_optional = true,
                   .check_place = "check the experiment",
                   .other_login = "set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD",
                   .verify = kVerify}) {}

std::string MlflowDestination::WarningOf(const model::RunSettings& settings) const {
  const absl::StatusOr<std::string> server = ServerOf(settings);
  const absl::StatusOr<Url> url = server.ok() ? ParseUrl(*server) : server.status();
  if (!url.ok() || url->scheme != "http" || url->loopback()) return "";
  return absl::StrCat("the way to ", *server, " is not encrypted, so others may read the rows");
}

Credential MlflowDestination::CredentialIn(
    const std::function<std::string(const std::string&)>& variable) const {
  const auto value = [&](const char* name) {
    return std::string(absl::StripAsciiWhitespace(variable(name)));
  };
  Credential account = {.user = value(kUser), .secret = value(kPassword)};
  if (!account.user.empty() && !account.secret.empty()) return account;
  return {.user = "", .secret = value(kToken)};
}

std::map<std::string, std::string> MlflowDestination::VariablesOf(
    const Credential& credential) const {
  const bool is_token = credential.user.empty();
  return {{kUser, credential.user},
          {kPassword, is_token ? "" : credential.secret},
          {kToken, is_token ? credential.secret : ""}};
}

Credential MlflowDestination::CredentialOfLogin(const NetrcEntry& entry) const {
  return {.user = entry.login == kNoUser ? "" : entry.login, .secret = entry.password};
}

std::string MlflowDestination::RunPage(const model::Run& run,
                                       const model::Delivery& delivery) const {
  const Cursor cursor = CursorFrom(delivery.cursor);
  if (!cursor.created()) return "";
  return PageOf(ServerOf(run.settings).value_or(""), cursor.experiment_id, cursor.run_id);
}

std::unique_ptr<RunDelivery> MlflowDestination::Deliver(model::Run run, model::Delivery delivery,
                                                        const DeliveryParts& parts) const {
  MlflowDelivery::Options options;
  options.transmit_interval = parts.transmit_interval;
  return std::make_unique<MlflowDelivery>(*this, std::move(run), std::move(delivery), parts,
                                          std::move(options));
}

// MLflow has no request for the account. This one needs a valid credential.
absl::StatusOr<std::string> MlflowDestination::AccountOf(Transport& transport,
                                                         const std::string& server,
                                                         const Credential& credential,
                                                         absl::Duration timeout) const {
  HttpRequest request = Post(server, "experiments/search", "{\"max_results\":1}");
  if (!credential.secret.empty()) Authorize(credential, &request);
  request.timeout = timeout;
  SetTrustBy(
      [this](const char* setting) { return EnvironmentVariable(VariableOf(setting).c_str()); },
      &request);
  absl::StatusOr<HttpResponse> answer = transport.Send(request);
  MaskKey(credential, request, &answer);
  if (!answer.ok()) return answer.status();
  if (answer->code == HttpResponse::kUnauthorized) {
    return absl::UnauthenticatedError(Explain(answer));
  }
  if (Classify(answer) != Outcome::kAccepted) return absl::UnknownError(Explain(answer));
  if (const auto json = ParseObject(*answer); !json.ok()) {
    return absl::UnknownError(json.status().message());
  }
  if (credential.secret.empty()) return std::string();
  return credential.user.empty() ? std::string("a token") : credential.user;
}

void SetTrust(const model::RunSettings& settings, HttpRequest* request) {
  SetTrustBy([&](const char* setting) { return settings.Of(kKind, setting); }, request);
}

std::string PageOf(absl::string_view server, absl::string_view experiment_id,
                   absl::string_view run_id) {
  return absl::StrCat(server, "/#/experiments/", experiment_id, "/runs/", run_id);
}

}  // namespace ranklog::deliver::mlflow
