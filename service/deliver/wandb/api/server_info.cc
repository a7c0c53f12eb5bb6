#include "service/deliver/wandb/api/server_info.h"

#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::wandb {
namespace {

using model::Json;
using nlohmann::json;

constexpr char kViewer[] = "query Viewer { viewer { id entity username } }";

constexpr char kFeatures[] =
    "query ServerFeaturesQuery { serverInfo { features { name isEnabled } } }";

}  // namespace

std::string ViewerBody() { return GraphqlBody(kViewer, "Viewer", Json::object()); }

std::string ParseViewer(absl::string_view body) {
  const json viewer = At(ParseAnswer(body), {"data", "viewer"});
  const std::string name = TextAt(viewer, {"username"});
  return name.empty() ? TextAt(viewer, {"entity"}) : name;
}

std::string FeaturesBody() { return GraphqlBody(kFeatures, "ServerFeaturesQuery", Json::object()); }

std::set<std::string> ParseFeatures(absl::string_view body) {
  std::set<std::string> enabled;
  const json features = At(ParseAnswer(body), {"data", "serverInfo", "features"});
  if (!features.is_array()) return enabled;
  for (const json& feature : features) {
    if (At(feature, {"isEnabled"}) == json(true)) enabled.insert(TextAt(feature, {"name"}));
  }
  return enabled;
}

}  // namespace ranklog::deliver::wandb
