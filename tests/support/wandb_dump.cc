#include "tests/support/wandb_dump.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

// Null if the text is not JSON.
json Parsed(const std::string& text) {
  json parsed = ParseExtendedJson(text);
  return parsed.is_discarded() ? json() : parsed;
}

json Parsed(const std::vector<std::string>& lines) {
  json rows = json::array();
  for (const std::string& line : lines) rows.push_back(Parsed(line));
  return rows;
}

json Bytes(const std::string& bytes) {
  const json text = bytes;
  const std::string dumped = text.dump(-1, ' ', false, json::error_handler_t::ignore);
  if (json::parse(dumped) == text) return text;
  return {{"base64", absl::Base64Escape(bytes)}};
}

json DumpOfArtifact(const WandbArtifacts::Artifact& artifact) {
  json files = json::object();
  for (const auto& [name, bytes] : artifact.files) files[name] = Bytes(bytes);
  return {{"type", artifact.type},
          {"name", artifact.collection},
          {"version", artifact.version},
          {"digest", artifact.digest},
          {"description", artifact.description},
          {"metadata", artifact.metadata},
          {"history_step", artifact.history_step},
          {"aliases", artifact.aliases},
          {"tags", artifact.tags},
          {"committed", artifact.committed},
          {"manifest", Parsed(artifact.manifest)},
          {"files", std::move(files)}};
}

json DumpOfRun(const WandbServer& server, const WandbServer::Run& run) {
  json files = json::object();
  for (const auto& [name, bytes] : run.files) files[name] = Bytes(bytes);
  json artifacts = json::array();
  json used = json::array();
  for (const auto& [id, artifact] : server.artifacts().all()) {
    if (artifact.runs.count(run.run_id) > 0) artifacts.push_back(DumpOfArtifact(artifact));
    if (artifact.used_by.count(run.run_id) > 0) used.push_back(artifact.collection);
  }
  return {{"entity", run.entity},
          {"project", run.project},
          {"variables", run.variables},
          {"config", Parsed(run.config)},
          {"existing_lines", run.existing_lines},
          {"history", Parsed(run.history)},
          {"events", Parsed(run.events)},
          {"console", run.console},
          {"summary", Parsed(run.summary)},
          {"files", std::move(files)},
          {"uploaded", run.uploaded},
          {"artifacts", std::move(artifacts)},
          {"used_artifacts", std::move(used)},
          {"alerts", run.alerts},
          {"stopped", run.stopped},
          {"preempting", run.preempting},
          {"complete", run.complete},
          {"exit_code", run.exit_code},
          {"upserts", run.upserts},
          {"heartbeats", run.heartbeats},
          {"repeated_lines", run.repeated_lines},
          {"repeated_events", run.repeated_events}};
}

}  // namespace

json DumpOf(const WandbServer& server) {
  json runs = json::object();
  for (const auto& [id, run] : server.runs()) runs[id] = DumpOfRun(server, run);
  return {{"runs", std::move(runs)}, {"errors", server.errors()}};
}

}  // namespace ranklog::testing
