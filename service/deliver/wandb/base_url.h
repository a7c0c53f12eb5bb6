// Where a W&B server's endpoints are.

#ifndef SERVICE_DELIVER_WANDB_BASE_URL_H_
#define SERVICE_DELIVER_WANDB_BASE_URL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

inline constexpr char kPublicBaseUrl[] = "https://api.wandb.ai";

// The base URL without trailing slashes; the public server's for an empty one.
//   kInvalidArgument  not a URL; or the public server's page instead of its API (https://wandb.ai),
//   or without TLS
absl::StatusOr<std::string> CheckBaseUrl(absl::string_view base_url);

std::string GraphqlUrl(absl::string_view base_url);
// With the entity, project and run id that the server gave, not those asked for.
std::string FileStreamUrl(absl::string_view base_url, absl::string_view entity,
                          absl::string_view project, absl::string_view run_id);

// Where people look at the run: of the public server https://wandb.ai, whose API has a host of its
// own.
std::string PageUrl(absl::string_view base_url);
std::string RunUrl(absl::string_view base_url, absl::string_view entity, absl::string_view project,
                   absl::string_view run_id);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_BASE_URL_H_
