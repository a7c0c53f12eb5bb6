#include "service/deliver/offline/answers.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/deliver/offline/records.h"
#include "service/deliver/offline/run_directory.h"
#include "service/deliver/wandb/api/graphql.h"

namespace ranklog::deliver::offline {
namespace {

using wandb::At;
using wandb::TextAt;

constexpr absl::string_view kMadeBySync[] = {"wandb-metadata.json", "wandb-summary.json",
                                             "config.yaml", "output.log"};

}  // namespace

nlohmann::json Data(const char* field, nlohmann::json value) {
  return {{"data", {{field, std::move(value)}}}};
}

nlohmann::json Standing(const nlohmann::json& variables) {
  return Data("model", {{"name", At(variables, {"project"})},
                        {"entity", {{"name", At(variables, {"entity"})}}},
                        {"bucket",
                         {{"id", "offline"},
                          {"name", At(variables, {"name"})},
                          {"historyLineCount", 0},
                          {"eventsLineCount", 0},
                          {"logLineCount", 0}}}});
}

nlohmann::json RunFileUrls(const nlohmann::json& variables) {
  nlohmann::json files = nlohmann::json::array();
  for (const nlohmann::json& given : At(variables, {"files"})) {
    const std::string name = given.get<std::string>();
    const bool made = std::find(std::begin(kMadeBySync), std::end(kMadeBySync),
                                absl::string_view(name)) != std::end(kMadeBySync);
    nlohmann::json file = {{"name", name}};
    if (IsBelow(name)) file["uploadUrl"] = absl::StrCat(made ? kUnusedUrl : kRunFileUrl, name);
    files.push_back(std::move(file));
  }
  return Data("createRunFiles", {{"files", std::move(files)}});
}

nlohmann::json ArtifactFileUrls(const nlohmann::json& input) {
  nlohmann::json edges = nlohmann::json::array();
  for (const nlohmann::json& file : At(input, {"artifactFiles"})) {
    const std::string id = TextAt(file, {"artifactID"});
    edges.push_back(
        {{"node",
          {{"uploadUrl", absl::StrCat(kArtifactUrl, id, "/", FileNameOf(TextAt(file, {"name"})))},
           {"artifact", {{"id", id}}}}}});
  }
  return Data("createArtifactFiles", {{"files", {{"edges", std::move(edges)}}}});
}

nlohmann::json ManifestUrl(const char* member, const std::string& id) {
  return Data(member, {{"artifactManifest",
                        {{"id", id}, {"file", {{"uploadUrl", absl::StrCat(kArtifactUrl, id)}}}}}});
}

}  // namespace ranklog::deliver::offline
