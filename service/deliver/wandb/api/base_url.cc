#include "service/deliver/wandb/api/base_url.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver::wandb {

absl::StatusOr<std::string> CheckBaseUrl(absl::string_view base_url) {
  while (absl::ConsumeSuffix(&base_url, "/")) {
  }
  if (base_url.empty()) return std::string(kPublicBaseUrl);
  ASSIGN_OR_RETURN(const Url url, ParseUrl(base_url));
  const std::string host = url.host();
  if (host == "wandb.ai" || absl::EndsWith(host, ".wandb.ai")) {
    if (!absl::StrContains(host, "api.")) {
      return absl::InvalidArgumentError(
          absl::StrCat("base URL ", base_url, ": the API is at ", kPublicBaseUrl));
    }
    if (url.scheme != "https") {
      return absl::InvalidArgumentError(
          absl::StrCat("base URL ", base_url, ": https:// is required"));
    }
  }
  return std::string(base_url);
}

std::string GraphqlUrl(absl::string_view base_url) { return absl::StrCat(base_url, "/graphql"); }

std::string FileStreamUrl(absl::string_view base_url, absl::string_view entity,
                          absl::string_view project, absl::string_view run_id) {
  return absl::StrCat(base_url, "/files/", PercentEncode(entity), "/", PercentEncode(project), "/",
                      PercentEncode(run_id), "/file_stream");
}

// As in the official client: the page's host is the API's host without "api.".
std::string PageUrl(absl::string_view base_url) {
  while (absl::ConsumeSuffix(&base_url, "/")) {
  }
  std::string page(base_url);
  if (const size_t at = page.find("://api."); at != std::string::npos) page.erase(at + 3, 4);
  return page;
}

std::string RunUrl(absl::string_view base_url, absl::string_view entity, absl::string_view project,
                   absl::string_view run_id) {
  return absl::StrCat(PageUrl(base_url), "/", PercentEncode(entity), "/", PercentEncode(project),
                      "/runs/", PercentEncode(run_id));
}

}  // namespace ranklog::deliver::wandb
