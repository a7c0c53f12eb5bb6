// The part of WandbServer that takes posts to file_stream.

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/support/wandb_server.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;

constexpr char kHistory[] = "wandb-history.jsonl";
constexpr char kEvents[] = "wandb-events.jsonl";

// Gives a row of shared mode its step. Rows of several writers may have the same one.
std::string Numbered(const std::string& line, size_t step) {
  json row = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!row.is_object()) {  // with NaN, which is not JSON
    return absl::StrCat(line.substr(0, line.rfind('}')), ",\"_step\":", step, "}");
  }
  row["_step"] = step;
  return row.dump();
}

}  // namespace

bool WandbServer::Refuses(const json& files) const {
  if (!refuses_line_) return false;
  for (const auto& [name, chunk] : files.items()) {
    for (const json& line : chunk.value("content", json::array())) {
      if (refuses_line_(line.get<std::string>())) return true;
    }
  }
  return false;
}

WandbServer::Answer WandbServer::FileStream(const std::string& entity, const std::string& project,
                                            const std::string& run_id, const std::string& text,
                                            const std::string& writer) {
  const auto refuse = [](const std::string& why) -> Answer { return {400, {{"error", why}}}; };
  const json body = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!body.is_object()) {
    errors_.push_back("file_stream: the body is no JSON object");
    return refuse("no JSON");
  }
  const auto found = runs_.find(run_id);
  if (found == runs_.end()) {
    return {404, {{"error", "no such run"}}};
  }
  Run& run = found->second;
  if (entity != run.entity || project != run.project) {
    errors_.push_back(
        absl::StrCat(run_id, ": posted under another entity or project: ", entity, "/", project));
  }
  if (run.complete && body.empty())
    errors_.push_back(absl::StrCat(run_id, ": a heartbeat after the end"));
  const json files = body.value("files", json::object());
  if (Refuses(files)) return refuse("a line is not valid");
  for (const char* const name : {kHistory, kEvents}) {
    if (!files.contains(name)) continue;
    const bool written = !writer.empty()   ? WriteShared(run, writer, name, files[name])
                         : name == kEvents ? WriteEvents(run, files[name])
                                           : WriteHistory(run, files[name]);
    if (!written) return refuse("a gap");
  }
  if (files.contains("wandb-summary.json"))
    run.summary = files["wandb-summary.json"]["content"].back();
  if (files.contains("output.log")) WriteConsole(run, files["output.log"]);
  ConfirmFiles(run, body.value("uploaded", json::array()));
  if (body.empty()) ++run.heartbeats;
  run.silent = false;
  run.preempting = (run.preempting && !run.complete) || body.value("preempting", false);
  run.complete = body.value("complete", false);
  if (run.complete) {
    run.exit_code = body.value("exitcode", -1);
    CheckEnd(run);
  }
  json answer = {{"exitcode", nullptr}, {"limits", json::object()}};
  if (run.stopped) answer["stopped"] = true;
  return {200, std::move(answer)};
}

bool WandbServer::WriteHistory(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1}) - run.existing_lines;
  if (offset < 0 || offset > static_cast<int64_t>(run.history.size())) {
    errors_.push_back(absl::StrCat(run.run_id, ": a post at line ", offset + run.existing_lines,
                                   " where ", run.existing_lines, " to ",
                                   run.existing_lines + run.history.size(), " fit"));
    return false;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == run.history.size()) {
      run.history.push_back(line);
    } else if (run.history[at] == line) {
      ++run.repeated_lines;
    } else {
      errors_.push_back(
          absl::StrCat(run.run_id, ": line ", at, " was ", run.history[at], " and became ", line));
      run.history[at] = line;
    }
    const bool follows = !several_stores_ || at > static_cast<size_t>(offset);
    CheckSteps(run, at++, follows);
  }
  return true;
}

bool WandbServer::WriteEvents(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1});
  if (offset < 0 || offset > static_cast<int64_t>(run.events.size())) {
    errors_.push_back(absl::StrCat(run.run_id, ": a post at event ", offset, " where 0 to ",
                                   run.events.size(), " fit"));
    return false;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == run.events.size()) {
      run.events.push_back(line);
    } else if (run.events[at] == line) {
      ++run.repeated_events;
    } else {
      errors_.push_back(
          absl::StrCat(run.run_id, ": event ", at, " was ", run.events[at], " and became ", line));
      run.events[at] = line;
    }
    const json row = ParseExtendedJson(line);
    if (!row.is_object() || row.value("_wandb", json()) != true || !row.contains("_timestamp") ||
        !row.contains("_runtime")) {
      errors_.push_back(absl::StrCat(run.run_id, ": event ", at, " is not one: ", line));
    }
    ++at;
  }
  return true;
}

// In shared mode, each writer counts its own lines, from the number that it was given at its start.
// The server numbers the rows.
bool WandbServer::WriteShared(Run& run, const std::string& writer, const char* file,
                              const json& chunk) {
  std::vector<std::string>& lines = file == kEvents ? run.events : run.history;
  const int64_t offset = chunk.value("offset", int64_t{-1});
  Writer& own = run.writers[absl::StrCat(writer, "/", file)];
  if (own.lines.empty()) own.first = offset;
  if (offset < own.first || offset > own.first + static_cast<int64_t>(own.lines.size())) {
    errors_.push_back(absl::StrCat(run.run_id, ": ", writer, " left a gap in ", file));
    return false;
  }
  auto at = static_cast<size_t>(offset - own.first);
  for (const json& content : chunk["content"]) {
    const std::string line = content.get<std::string>();
    if (at == own.lines.size()) {
      own.lines.push_back(line);
      lines.push_back(file == kEvents ? line : Numbered(line, lines.size()));
    } else if (own.lines[at] == line) {
      ++(file == kEvents ? run.repeated_events : run.repeated_lines);
    } else {
      errors_.push_back(absl::StrCat(run.run_id, ": a line of ", writer, " was ", own.lines[at],
                                     " and became ", line));
    }
    ++at;
  }
  return true;
}

// Lines may be written again with other text: a progress bar changes its line. Lines may be left
// out: an empty line has no text to write.
void WandbServer::WriteConsole(Run& run, const json& chunk) {
  const int64_t offset = chunk.value("offset", int64_t{-1});
  if (offset < 0) {
    errors_.push_back(absl::StrCat(run.run_id, ": output.log without an offset"));
    return;
  }
  size_t at = static_cast<size_t>(offset);
  for (const json& line : chunk["content"]) {
    if (at >= run.console.size()) run.console.resize(at + 1);
    run.console[at++] = line.get<std::string>();
  }
}

void WandbServer::CheckSteps(const Run& run, size_t line, bool follows) {
  const json row = ParseExtendedJson(run.history[line]);
  if (!row.is_object() || !row.contains("_step") || !row["_step"].is_number_integer()) {
    errors_.push_back(
        absl::StrCat(run.run_id, ": line ", line, " has no whole _step: ", run.history[line]));
    return;
  }
  if (line == 0 || !follows) return;
  const json before = ParseExtendedJson(run.history[line - 1]);
  if (before.is_object() && before.contains("_step") && before["_step"] >= row["_step"]) {
    errors_.push_back(absl::StrCat(run.run_id, ": the _step of line ", line, " does not grow"));
  }
}

}  // namespace ranklog::testing
