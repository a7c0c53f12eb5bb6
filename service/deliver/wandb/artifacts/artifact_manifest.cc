#include "service/deliver/wandb/artifacts/artifact_manifest.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/deliver/json/json_writer.h"
#include "service/deliver/wandb/artifacts/md5.h"

namespace ranklog::deliver::wandb {

std::string ArtifactDigest(const std::map<std::string, std::string>& entries) {
  Md5 md5;
  md5.Add("wandb-artifact-manifest-v1\n");
  for (const auto& [path, digest] : entries) md5.Add(absl::StrCat(path, ":", digest, "\n"));
  return absl::BytesToHexString(md5.Finish());
}

std::string ManifestText(const ArtifactEntries& entries) {
  model::Json contents = model::Json::object();
  for (const auto& [path, entry] : entries) {
    model::Json& to = contents[path] = {{"digest", entry.digest}, {"size", entry.bytes}};
    if (entry.ref.empty()) {
      to["birthArtifactID"] = entry.birth;
    } else {
      to["ref"] = entry.ref;
    }
  }
  return ToJsonText({{"version", 1},
                     {"storagePolicy", "wandb-storage-policy-v1"},
                     {"storagePolicyConfig", {{"storageLayout", "V2"}}},
                     {"contents", std::move(contents)}});
}

}  // namespace ranklog::deliver::wandb
