// The artifacts of a W&B server: the operations that create, upload, commit and find them. Part of
// WandbServer. Strict: an artifact is committed only if its manifest, its files and their digests
// agree.

#ifndef TESTS_SUPPORT_WANDB_ARTIFACTS_H_
#define TESTS_SUPPORT_WANDB_ARTIFACTS_H_

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace ranklog::testing {

// Not thread-safe.
class WandbArtifacts {
 public:
  struct Artifact {
    std::string id;
    std::string entity;
    std::string project;
    std::string type;
    std::string collection;      // the name without a version
    int version = -1;            // from the commit on
    std::set<std::string> runs;  // that logged it
    std::set<std::string> used_by;
    std::string client_id;
    std::string digest;
    nlohmann::json description;
    nlohmann::json metadata;  // JSON text, or null
    nlohmann::json history_step;
    std::set<std::string> aliases;
    std::set<std::string> tags;
    std::string base;                          // an incremental version: what it adds to
    std::string manifest;                      // JSON text
    std::map<std::string, std::string> files;  // bytes by name; without those of other artifacts
    std::set<std::string> awaited;             // files with an upload URL, but without bytes
    bool committed = false;
  };
  // Returns the URL of an object: a "artifact"'s file, a "manifest", or a "part" of a file.
  using Url = std::function<std::string(const std::string& kind, const std::string& owner,
                                        const std::string& name)>;
  // Receives violations that a strict server would report.
  using Report = std::function<void(const std::string& error)>;

  WandbArtifacts(Url url, Report report) : url_(std::move(url)), report_(std::move(report)) {}

  static bool Knows(const std::string& operation);
  // Returns the body of the answer.
  nlohmann::json Answer(const std::string& operation, const nlohmann::json& variables);
  // Returns whether such an object was to be uploaded.
  bool Put(const std::string& kind, const std::string& owner, const std::string& name,
           const std::string& bytes);
  // Forgets a part that was uploaded.
  void LosePart(const std::string& upload, const std::string& number);
  // Null: there is no such object.
  const std::string* Get(const std::string& kind, const std::string& owner,
                         const std::string& name) const;

  const std::map<std::string, Artifact>& all() const { return artifacts_; }  // by id
  std::vector<const Artifact*> LoggedBy(const std::string& run_id) const;

 private:
  struct Upload {  // in parts
    std::string artifact;
    std::string name;
    std::map<int, std::string> parts;
  };

  nlohmann::json Create(const nlohmann::json& input);
  nlohmann::json Manifest(const nlohmann::json& variables, const char* operation);
  nlohmann::json CreateFiles(const nlohmann::json& variables);
  nlohmann::json CompleteParts(const nlohmann::json& variables);
  nlohmann::json Commit(const std::string& id);
  nlohmann::json Use(const nlohmann::json& input);
  nlohmann::json Find(const std::string& operation, const nlohmann::json& variables);
  nlohmann::json FileUrls(const nlohmann::json& variables);

  void CheckManifest(const Artifact& artifact);
  // An incremental version has the files of its base, too.
  void AddFilesOfBase(Artifact& artifact);
  void SetAliases(Artifact& artifact, const std::set<std::string>& aliases);
  Artifact* ById(const std::string& id);
  // `name`: COLLECTION:ALIAS or COLLECTION:vN.
  Artifact* ByName(const std::string& project, const std::string& name);
  Artifact* Latest(const std::string& project, const std::string& collection);
  // A committed artifact of the collection that has a file with these bytes.
  const Artifact* OwnerOf(const Artifact& artifact, const std::string& name,
                          const std::string& md5) const;
  nlohmann::json Node(const Artifact& artifact) const;

  const Url url_;
  const Report report_;
  std::map<std::string, Artifact> artifacts_;
  std::map<std::string, std::string> manifests_;  // artifact ids by manifest id
  std::map<std::string, Upload> uploads_;
};

// Base64 of the MD5 of `bytes`.
std::string Md5Base64(const std::string& bytes);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WANDB_ARTIFACTS_H_
