#include "service/import/run_logs.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "service/base/status_macros.h"
#include "service/base/text/printable.h"
#include "service/wandb_log/log_file.h"

namespace ranklog::imports {
namespace {

namespace fs = std::filesystem;

constexpr char kUsualProject[] = "uncategorized";  // as the official client's

constexpr char kSyncState[] = ".syncstate";  // after the path of a log
constexpr char kStartingStep[] = "starting_step";
constexpr char kOnline[] = "run-";  // begins the directories of online runs

bool IsLog(const fs::path& path) { return path.extension() == ".wandb"; }

void AddLogsOf(const fs::path& dir, std::vector<std::string>* logs) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(dir, error)) {
    if (IsLog(entry.path()) && entry.is_regular_file(error)) logs->push_back(entry.path().string());
  }
}

}  // namespace

uint64_t StableHash(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash ^= static_cast<unsigned char>(byte);
    hash *= 0x100000001b3;
  }
  return hash;
}

bool RunLog::IsSynced() const { return access(marker().c_str(), F_OK) == 0; }

absl::optional<int64_t> RunLog::StartingStep() const {
  std::ifstream file(path + kSyncState);
  const auto state = nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
  if (!state.is_object() || !state.contains(kStartingStep)) return absl::nullopt;
  const auto& step = state[kStartingStep];
  return step.is_number_integer() ? absl::make_optional(step.get<int64_t>()) : absl::nullopt;
}

void RunLog::KeepStartingStep(int64_t step) const {
  std::ofstream(path + kSyncState) << nlohmann::json({{kStartingStep, step}});
}

absl::StatusOr<std::vector<std::string>> FindLogs(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) {
    return absl::NotFoundError(absl::StrCat("there is no file or directory ", Printable(path)));
  }
  std::vector<std::string> logs;
  if (!fs::is_directory(status)) {
    logs.push_back(path);
  } else {
    AddLogsOf(path, &logs);
    const bool is_run = !logs.empty();
    for (const fs::directory_entry& entry : fs::directory_iterator(path, error)) {
      // A link such as `latest-run` names a directory that is here, too.
      const bool online = absl::StartsWith(entry.path().filename().string(), kOnline);
      if (!is_run && !online && entry.is_directory(error) && !entry.is_symlink(error)) {
        AddLogsOf(entry.path(), &logs);
      }
    }
  }
  if (error) {
    return absl::NotFoundError(
        absl::StrCat("cannot read ", Printable(path), ": ", error.message()));
  }
  if (logs.empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no .wandb log in ", Printable(path), " or its subdirectories"));
  }
  std::sort(logs.begin(), logs.end());
  return logs;
}

absl::StatusOr<RunLog> ReadRunLog(const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<wandb_log::LogReader> reader,
                   wandb_log::LogReader::Open(path));
  wandb_internal::Record record;
  while (!record.has_run()) {
    ASSIGN_OR_RETURN(const absl::optional<std::string> bytes, reader->Next());
    if (!bytes.has_value()) {
      return absl::FailedPreconditionError(
          absl::StrCat(Printable(path), " names no run; its program wrote nothing else yet"));
    }
    record.ParseFromString(*bytes);
  }
  RunLog log;
  log.path = path;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error).lexically_normal();
  log.dir = absolute.parent_path().string();
  log.name = absolute.parent_path().filename().string();
  log.bytes = fs::file_size(path, error);
  log.run = std::move(*record.mutable_run());
  const google::protobuf::Timestamp& start = log.run.start_time();
  log.started_us = start.seconds() * 1000000 + start.nanos() / 1000;
  log.id = std::max<uint64_t>(StableHash(absl::StrCat(log.run.run_id(), "\n", start.seconds(), "\n",
                                                      start.nanos(), "\n", log.run.host())),
                              1);
  if (log.run.run_id().empty()) {
    return absl::FailedPreconditionError(absl::StrCat(Printable(path), " has a run without an id"));
  }
  return log;
}

Target TargetOf(const RunLog& log, const Target& instead) {
  Target target{
      .entity = log.run.entity(), .project = log.run.project(), .run_id = log.run.run_id()};
  if (!instead.entity.empty()) target.entity = instead.entity;
  if (!instead.project.empty()) target.project = instead.project;
  if (!instead.run_id.empty()) target.run_id = instead.run_id;
  if (target.project.empty()) target.project = kUsualProject;
  return target;
}

}  // namespace ranklog::imports
