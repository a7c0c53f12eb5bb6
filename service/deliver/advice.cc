#include "service/deliver/advice.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver {
namespace {

constexpr int kNoPermission = 403;

}  // namespace

std::string WithRun(absl::string_view message, absl::string_view run_id) {
  return absl::StrReplaceAll(message, {{" sync RUN", absl::StrCat(" sync ", run_id)}});
}

std::string Advice(const Destination& destination, const absl::StatusOr<HttpResponse>& answer,
                   absl::string_view address, bool created) {
  if (answer.ok() && destination.IsKeyRefused(*answer)) {
    return absl::StrCat("run ", destination.LoginCommand(address), " with a valid key");
  }
  if (answer.ok() && answer->code == kNoPermission) {
    return "give the key's account access to the project";
  }
  if (answer.ok()) {
    if (created) return "check that the run and its server still exist";
    return absl::StrCat(destination.words().check_place,
                        " and the address; to correct the address, ", kCorrectAddress);
  }
  // No request was sent.
  const absl::StatusOr<std::string> server = destination.CheckUrl(address);
  if (!server.ok())
    return created ? "start the job again with the former address" : kCorrectAddress;
  const absl::StatusOr<Url> url = ParseUrl(*server);
  if (url.ok() && url->scheme == "http" && !url->loopback()) {
    return absl::StrCat("run: RANKLOG_ALLOW_HTTP=1 ranklog sync RUN",
                        created ? "" : "; or for https://, ", created ? "" : kCorrectAddress);
  }
  return "correct that";
}

}  // namespace ranklog::deliver
