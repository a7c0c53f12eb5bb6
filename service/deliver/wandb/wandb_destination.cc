#include "service/deliver/wandb/wandb_destination.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "service/base/environment.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/masking.h"
#include "service/deliver/wandb/api/base_url.h"
#include "service/deliver/wandb/api/server_info.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/deliver/wandb/artifacts/artifact_download.h"
#include "service/deliver/wandb/cursor.h"
#include "service/deliver/wandb/history/branch_point.h"
#include "service/deliver/wandb/wandb_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr char kRewindTo[] = "resume_from";  // the official client's name
constexpr char kVerify[] =
    R"(  wandb  By W&B's public API: the values of every row, and the number of lines. The server may keep old rows in
         Parquet files, which it counts but does not return. These rows are reported as "not checked"; only
         their number is compared. Once the run's end is delivered, the config and the summary are compared:
         all keys and values, and that there is no other key. Not compared: keys with a leading underscore,
         such as _runtime and _wandb with the metric definitions, which the server may change; step metrics
         that are added to the summary (step_sync); files.
)";

}  // namespace

WandbDestination::WandbDestination()
    : Destination({.kind = kKind,
                   .name = "Weights & Biases",
                   .url_setting = "base_url",
                   .public_url = kPublicBaseUrl,
                   .other_settings = {kForkFrom, kRewindTo},
                   .key_variable = "WANDB_API_KEY",
                   .user_variable = "",
                   .other_variables = {"WANDB_USERNAME", "WANDB_USER_EMAIL"},
                   .check_place = "check the entity",
                   .other_login = "log in with the W&B client, which writes ~/.netrc",
                   .verify = kVerify}),
      username_(EnvironmentVariable("WANDB_USERNAME")),
      user_email_(EnvironmentVariable("WANDB_USER_EMAIL")) {}

const Destination& Wandb() { return *FindDestination(kKind); }

absl::StatusOr<std::string> WandbDestination::CheckUrl(absl::string_view url) const {
  return CheckBaseUrl(url);
}

absl::Status WandbDestination::CheckSetting(absl::string_view name, absl::string_view value) const {
  if (name == kForkFrom) return ParseBranchPoint(value).status();
  if (name == kRewindTo) {
    return absl::InvalidArgumentError(
        "a run cannot be rewound, because that removes rows which have been delivered; begin a new "
        "run at that step with fork_from, or continue the run with RANKLOG_RESUME=allow");
  }
  return absl::OkStatus();
}

absl::Status WandbDestination::CheckCredential(const Credential& credential) const {
  for (const char c : credential.secret) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "not an API key: it contains a space or a control character");
    }
  }
  return absl::OkStatus();
}

void WandbDestination::Authorize(const Credential& credential, HttpRequest* request) const {
  request->basic_user = "api";
  request->basic_password = credential.secret;
}

// The official client writes the login `user` there.
Credential WandbDestination::CredentialOfLogin(const NetrcEntry& entry) const {
  return {.user = "", .secret = entry.password};
}

std::string WandbDestination::KeyPage(absl::string_view server) const {
  return absl::StrCat(PageUrl(server), "/authorize");
}

std::string WandbDestination::RunPage(const model::Run& run,
                                      const model::Delivery& delivery) const {
  const Cursor cursor = CursorFrom(delivery.cursor);
  if (!cursor.created()) return "";
  return RunUrl(AddressOf(run.settings), cursor.entity, cursor.project, cursor.run_id);
}

std::unique_ptr<RunDelivery> WandbDestination::Deliver(model::Run run, model::Delivery delivery,
                                                       const DeliveryParts& parts) const {
  WandbDelivery::Options options;
  options.transmit_interval = parts.transmit_interval;
  options.username = username_;
  options.user_email = user_email_;
  return std::make_unique<WandbDelivery>(std::move(run), std::move(delivery), parts,
                                         std::move(options));
}

absl::StatusOr<std::string> WandbDestination::AccountOf(Transport& transport,
                                                        const std::string& server,
                                                        const Credential& credential,
                                                        absl::Duration timeout) const {
  HttpRequest request;
  request.url = GraphqlUrl(server);
  request.headers = {{"Content-Type", "application/json"}};
  if (!credential.secret.empty()) Authorize(credential, &request);
  request.body = ViewerBody();
  request.timeout = timeout;
  absl::StatusOr<HttpResponse> answer = transport.Send(request);
  MaskKey(credential, request, &answer);
  if (!answer.ok()) return answer.status();
  if (answer->code == HttpResponse::kUnauthorized)
    return absl::UnauthenticatedError(Explain(answer));
  if (Classify(answer) != Outcome::kAccepted) return absl::UnknownError(Explain(answer));
  if (const absl::Status ours = CheckAnswer(*answer); !ours.ok()) {
    return absl::UnknownError(ours.message());
  }
  std::string name = ParseViewer(answer->body);
  if (name.empty() && !credential.secret.empty()) {
    return absl::UnauthenticatedError("the server does not know the key");
  }
  return name;
}

absl::StatusOr<DownloadReport> WandbDestination::Download(Transport& transport,
                                                          const std::string& server,
                                                          const Credential& credential,
                                                          const DownloadOptions& options) const {
  return DownloadArtifact(transport, server, credential, options);
}

}  // namespace ranklog::deliver::wandb
