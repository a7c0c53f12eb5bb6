// The answers of Tracker that follow from the query alone.

#ifndef SERVICE_DELIVER_OFFLINE_ANSWERS_H_
#define SERVICE_DELIVER_OFFLINE_ANSWERS_H_

#include <nlohmann/json.hpp>
#include <string>

namespace ranklog::deliver::offline {

// The addresses that the tracker gives for uploads begin with one of these.
inline constexpr char kRunFileUrl[] = "file:";
inline constexpr char kUnusedUrl[] = "unused:";  // of files that `wandb sync` makes itself
inline constexpr char kArtifactUrl[] = "artifact:";

// The answer to a query: `field` of its data.
nlohmann::json Data(const char* field, nlohmann::json value);

// Only this process writes the directory, so nothing of the run is there that the delivery does not
// know.
nlohmann::json Standing(const nlohmann::json& variables);
nlohmann::json RunFileUrls(const nlohmann::json& variables);
nlohmann::json ArtifactFileUrls(const nlohmann::json& input);
// A manifest has the id of its artifact.
nlohmann::json ManifestUrl(const char* member, const std::string& id);

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_ANSWERS_H_
