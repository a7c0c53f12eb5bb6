// The endpoint URLs of a W&B server.

#ifndef SERVICE_DELIVER_WANDB_API_BASE_URL_H_
#define SERVICE_DELIVER_WANDB_API_BASE_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

inline constexpr char kPublicBaseUrl[] = "https://api.wandb.ai";

// The base URL without trailing slashes; the public server's URL if it is empty.
//   kInvalidArgument  not a URL; the public server's web page instead of its API
//                     (https://wandb.ai); or the public server without TLS
absl::StatusOr<std::string> CheckBaseUrl(absl::string_view base_url);

std::string GraphqlUrl(absl::string_view base_url);
// Pass the entity, project and run id from the server's answer, not the requested ones.
std::string FileStreamUrl(absl::string_view base_url, absl::string_view entity,
                          absl::string_view project, absl::string_view run_id);

// The URL of the web pages. For the public server this is https://wandb.ai, because its API has
// another host.
std::string PageUrl(absl::string_view base_url);
std::string RunUrl(absl::string_view base_url, absl::string_view entity, absl::string_view project,
                   absl::string_view run_id);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_BASE_URL_H_
