#include "service/deliver/wandb/advice.h"

#include "absl/strings/str_cat.h"
#include "service/base/shell_word.h"
#include "service/deliver/retry.h"
#include "service/deliver/url.h"
#include "service/deliver/wandb/base_url.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr int kNoValidKey = 401;
constexpr int kNoPermission = 403;

}  // namespace

std::string LoginCommand(absl::string_view base_url) {
  const absl::StatusOr<std::string> server = CheckBaseUrl(base_url);
  if (!server.ok() || *server == kPublicBaseUrl) return "`ranklog login`";
  return absl::StrCat("`ranklog login --base-url ", ShellWord(*server), "`");
}

absl::Status WithLoginCommand(const absl::Status& no_key, absl::string_view base_url) {
  if (!absl::IsNotFound(no_key)) return no_key;
  return absl::NotFoundError(
      absl::StrCat(no_key.message(), kToContinue, "run ", LoginCommand(base_url)));
}

std::string Advice(const absl::StatusOr<HttpResponse>& answer, absl::string_view base_url,
                   bool created) {
  if (answer.ok() && answer->code == kNoValidKey) {
    return absl::StrCat("run ", LoginCommand(base_url), " with a valid key");
  }
  if (answer.ok() && answer->code == kNoPermission) {
    return "give the key's account access to the project";
  }
  if (answer.ok()) {
    if (created) return "check that the run and its server still exist";
    return absl::StrCat("check the entity and the address; to correct the address, ",
                        kCorrectAddress);
  }
  // No request was sent.
  const absl::StatusOr<std::string> server = CheckBaseUrl(base_url);
  if (!server.ok())
    return created ? "start the job again with the former address" : kCorrectAddress;
  const absl::StatusOr<Url> url = ParseUrl(*server);
  if (url.ok() && url->scheme == "http" && !url->loopback()) {
    return absl::StrCat("run: RANKLOG_ALLOW_HTTP=1 ranklog sync RUN",
                        created ? "" : "; or for https://, ", created ? "" : kCorrectAddress);
  }
  return "correct that";
}

}  // namespace ranklog::deliver::wandb
