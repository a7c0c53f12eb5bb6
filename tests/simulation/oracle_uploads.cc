// The part of Oracle that judges artifacts and files of the run at the tracker.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {
namespace {

using testing::WandbArtifacts;

// The files and references of a committed artifact. Empty: it is not whole.
std::map<std::string, std::string> ContentsOf(const WandbArtifacts::Artifact& artifact,
                                              const WandbArtifacts& all) {
  const nlohmann::json manifest =
      nlohmann::json::parse(artifact.manifest, nullptr, /*allow_exceptions=*/false);
  if (!artifact.committed || !manifest.is_object()) return {};
  std::map<std::string, std::string> contents;
  for (const auto& [path, entry] : manifest["contents"].items()) {
    if (entry.contains("ref")) {
      contents[path] = entry["ref"];
      continue;
    }
    const std::string* const bytes = all.Get("artifact", entry["birthArtifactID"], path);
    if (bytes == nullptr) return {};
    contents[path] = *bytes;
  }
  return contents;
}

}  // namespace

void Oracle::JudgeUploads(storage::StoreReader& reader, const model::Run& run,
                          const std::vector<model::Stream>& streams, const Tracker& tracker) {
  const auto dead = reader.DeadLetters(run.id);
  if (!dead.ok()) return Wrong(dead.status().ToString());
  std::string letters;
  for (const model::DeadLetter& letter : *dead) {
    if (letter.row == 0) absl::StrAppend(&letters, letter.content, "\n");
  }
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr) continue;
    for (size_t i = 0; i < ring->items.size(); ++i) {
      const LoggedUpload* const upload = ring->items[i].upload.get();
      if (upload == nullptr || upload->artifact.empty()) continue;
      JudgeArtifact(*upload, run, /*due=*/i < ring->due_items(), letters, tracker);
    }
    JudgeRunFiles(*ring, run, letters, tracker);
  }
}

// Its alias is at one artifact, which has its files. It was logged by this run.
void Oracle::JudgeArtifact(const LoggedUpload& upload, const model::Run& run, bool due,
                           const std::string& letters, const Tracker& tracker) {
  const std::string who = absl::StrCat(run.run_id, ": artifact ", upload.artifact, " ", upload.id);
  std::map<std::string, std::string> logged = upload.files;
  logged.insert(upload.references.begin(), upload.references.end());
  const WandbArtifacts& artifacts = tracker.server().artifacts();
  int found = 0;
  for (const auto& [id, artifact] : artifacts.all()) {
    if (artifact.aliases.count(upload.id) == 0 || !artifact.committed) continue;
    ++found;
    if (artifact.collection != upload.artifact) Wrong(who, " is in ", artifact.collection);
    if (artifact.runs.count(run.run_id) == 0) Wrong(who, " is another run's");
    if (ContentsOf(artifact, artifacts) != logged) Wrong(who, " has other contents");
  }
  const bool set_apart = absl::StrContains(letters, upload.id);
  if (upload.damaged ? found > 0 || (due && !set_apart) : found > 1 || set_apart) {
    Wrong(who, " is there ", found, " times; damaged ", upload.damaged, ", set apart ", set_apart);
  } else if (due && found + (set_apart ? 1 : 0) != 1) {
    Wrong(who, " is not at the tracker");
  }
}

// The last content of each name is there, and was confirmed.
void Oracle::JudgeRunFiles(const RingRecord& ring, const model::Run& run,
                           const std::string& letters, const Tracker& tracker) {
  const testing::WandbServer::Run& shown = tracker.server().runs().at(run.run_id);
  const std::set<std::string> set_back = tracker.set_back(run.run_id).files;
  for (uint64_t number = 0; number < 2; ++number) {
    const std::string path = ring.RunFile(number);
    std::vector<std::string> right;  // the contents that may be the last one
    bool due = false, damaged = false;
    for (size_t i = 0; i < ring.items.size(); ++i) {
      const LoggedUpload* const upload = ring.items[i].upload.get();
      if (upload == nullptr || upload->files.count(path) == 0) continue;
      damaged |= upload->damaged;
      if (i < ring.due_items()) {
        due = true;
        right.clear();
      }
      right.push_back(upload->files.at(path));
    }
    if (damaged) continue;  // the content before it may stay, or never have been sent
    if (absl::StrContains(letters, path)) Wrong(run.run_id, ": file ", path, " is set apart");
    const auto file = shown.files.find(path);
    if (file == shown.files.end()) {
      if (due) Wrong(run.run_id, ": file ", path, " is not at the tracker");
      continue;
    }
    // A store after which another one continued the run makes no more posts.
    if (shown.uploaded.count(path) == 0 && !moves)
      Wrong(run.run_id, ": file ", path, " is not confirmed");
    if (set_back.count(path) == 0 &&
        std::find(right.begin(), right.end(), file->second) == right.end()) {
      Wrong(run.run_id, ": file ", path, " has another content");
    }
  }
}

}  // namespace ranklog::simulation
