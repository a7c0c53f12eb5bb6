#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/daemon_status.h"
#include "service/cli/json_text.h"
#include "service/cli/number_text.h"
#include "service/cli/salvage_report.h"
#include "service/cli/terminal.h"
#include "service/storage/damage.h"
#include "service/storage/file_system.h"

namespace ranklog::cli {
namespace {

constexpr char kFooter[] = R"(
Looks, and changes nothing. Exit code: 0 all is well, 1 something is to be done, and the lines say what.

Examples:
  ranklog doctor
  ranklog doctor --json | jq '.problems')";

struct Finding {
  std::string what;  // one word
  model::Json data;  // for programs
  std::string text;
  std::string advice;  // empty: it is well
};

class Doctor {
 public:
  Doctor(const Globals& globals, std::string dir) : globals_(globals), dir_(std::move(dir)) {}

  std::vector<Finding> Examine() {
    Directory();
    Daemon();
    Store();
    SetAside();
    Spools();
    return std::move(findings_);
  }

 private:
  void Add(Finding finding) { findings_.push_back(std::move(finding)); }

  void Directory() {
    struct stat info {};
    if (stat(dir_.c_str(), &info) != 0) {
      return Add(
          {"directory", {{"path", dir_}, {"present", false}}, dir_ + " is not there yet", ""});
    }
    Finding finding{
        "directory", {{"path", dir_}, {"present", true}, {"mode", info.st_mode & 07777}}, dir_, ""};
    const absl::Status local = storage::CheckLocal(dir_);
    if (!local.ok()) {
      finding.advice = std::string(local.message());
    } else if (info.st_uid != geteuid()) {
      finding.advice = "it belongs to another user: name your own with --state-dir";
    } else if ((info.st_mode & 077) != 0) {
      finding.advice = absl::StrCat("others may look into it: chmod 700 ", dir_);
    }
    Add(std::move(finding));
  }

  void Daemon() {
    const int64_t pid = storage::StateLock::Holder(dir_);
    Finding finding{"daemon", {{"running", pid != 0}}, "not running", ""};
    if (pid == 0) return Add(std::move(finding));
    finding.data["pid"] = pid;
    finding.text = absl::StrCat("pid ", pid, " holds the directory");
    const auto daemon = FindDaemon(dir_, globals_.address);
    if (daemon) {
      finding.data["version"] = daemon->version;
      finding.data["started_by"] = daemon->started_by;
      finding.data["address"] = daemon->address;
      absl::StrAppend(&finding.text, ", version ", daemon->version, ", started by ",
                      daemon->started_by, ", answers at ", daemon->address);
      if (daemon->version != RANKLOG_VERSION) {
        finding.advice = "this program has version " RANKLOG_VERSION
                         ": restart the daemon, or use the program that came with it";
      }
    } else if (globals_.address.empty()) {
      absl::StrAppend(&finding.text,
                      "; it listens at none of the usual addresses (--address asks "
                      "it elsewhere)");
    } else {
      finding.advice = absl::StrCat("no answer at ", globals_.address,
                                    ": is that its address, and is it stopped?");
    }
    Add(std::move(finding));
  }

  void Store() {
    const std::string path = absl::StrCat(dir_, "/", storage::kStoreFile);
    Finding finding{"store", {{"path", path}}, path, ""};
    auto reader = storage::StoreReader::Open(dir_);
    absl::Status status = reader.status();
    if (absl::IsNotFound(status)) {
      finding.data["present"] = false;
      finding.text = "none yet";
      return Add(std::move(finding));
    }
    if (status.ok()) status = (*reader)->Check();
    finding.data["intact"] = status.ok();
    if (status.ok()) {
      const auto runs = (*reader)->Runs();
      const auto bytes = (*reader)->FileBytes();
      absl::StrAppend(&finding.text, ", ", BytesText(bytes.value_or(0)), ", ",
                      runs.ok() ? runs->size() : 0, " runs, no damage found");
    } else if (absl::IsDataLoss(status)) {
      finding.advice = absl::StrCat(
          std::string(status.message()),
          ". The next start of ranklogd sets it aside; `ranklog recover` then saves what is left");
    } else {
      finding.advice = std::string(status.message());
    }
    Add(std::move(finding));
  }

  void SetAside() {
    for (const std::string& path : storage::SetAsideStores(dir_)) {
      Finding finding{"set aside", {{"path", path}}, path, ""};
      std::error_code error;
      if (std::filesystem::exists(absl::StrCat(path, ".recovered"), error)) {
        finding.data["recovered"] = true;
        absl::StrAppend(&finding.text, ", saved in ", path, ".recovered");
        Add(std::move(finding));
        continue;
      }
      const auto salvaged = SalvageInScratch(path, dir_, "");
      if (salvaged.ok()) {
        std::set<std::string> runs;
        for (const auto& stream : salvaged->streams) runs.insert(stream.run_id);
        finding.data.update(ToJson(*salvaged));
        absl::StrAppend(&finding.text, ", ", salvaged->saved_rows(), " rows of ", runs.size(),
                        " runs can be read, ", salvaged->lost_rows(), " cannot");
        finding.advice = absl::StrCat("save them: ranklog recover ", path);
      } else {
        absl::StrAppend(&finding.text, ": ", std::string(salvaged.status().message()));
        finding.advice = "nothing can be saved by this program; remove it once you have a copy";
      }
      Add(std::move(finding));
    }
  }

  void Spools() {
    for (const std::string& dir : SpoolDirs()) {
      size_t rings = 0;
      size_t damaged = 0;
      int64_t bytes = 0;
      std::error_code error;
      for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
           entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (!absl::StartsWith(name, "ring-")) continue;
        std::error_code gone;
        if (absl::EndsWith(name, ".damaged")) {
          ++damaged;
        } else {
          ++rings;
        }
        struct stat info {};
        if (stat(entry->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
      }
      if (rings + damaged == 0) continue;
      Add({"spool",
           {{"path", dir}, {"rings", rings}, {"damaged", damaged}, {"bytes", bytes}},
           absl::StrCat(dir, ", ", rings, " rings, ", damaged, " damaged, ", BytesText(bytes)),
           damaged > 0
               ? "rings that contradict themselves were kept as *.damaged: remove them once "
                 "they are of no use"
               : ""});
    }
  }

  static std::vector<std::string> SpoolDirs() {
    if (const char* dir = std::getenv("RANKLOG_SPOOL_DIR"); dir != nullptr && *dir != 0) {
      return {dir};
    }
    std::vector<std::string> dirs = {absl::StrCat("/run/ranklog/", getuid())};
    if (const char* dir = std::getenv("XDG_RUNTIME_DIR"); dir != nullptr && *dir == '/') {
      dirs.push_back(absl::StrCat(dir, "/ranklog"));
    }
    dirs.push_back(absl::StrCat("/dev/shm/ranklog-", getuid()));
    return dirs;
  }

  const Globals& globals_;
  const std::string dir_;
  std::vector<Finding> findings_;
};

absl::Status Examine(const Globals& globals, bool as_json) {
  ASSIGN_OR_RETURN(const std::string dir, globals.StateDir());
  const std::vector<Finding> findings = Doctor(globals, dir).Examine();
  size_t problems = 0;
  model::Json parts = model::Json::array();
  model::Json advice = model::Json::array();
  const Terminal terminal = Terminal::Of(STDOUT_FILENO);
  for (const Finding& finding : findings) {
    model::Json data = finding.data;
    data["part"] = finding.what;
    data["well"] = finding.advice.empty();
    parts.push_back(std::move(data));
    if (!finding.advice.empty()) {
      ++problems;
      advice.push_back(absl::StrCat(finding.what, ": ", finding.advice));
    }
    if (as_json) continue;
    std::string name = finding.what;
    name.resize(11, ' ');
    std::cout << name << finding.text << "\n";
    if (!finding.advice.empty()) {
      std::cout << std::string(11, ' ') << terminal.Red(finding.advice) << "\n";
    }
  }
  if (as_json) std::cout << PrettyJson({{"parts", parts}, {"problems", advice}});
  if (problems == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(problems, problems == 1 ? " thing is" : " things are", " to be done"));
}

}  // namespace

void AddDoctor(CLI::App& app, const Globals& globals, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "say what is wrong with the state directory, and what to do");
  const auto json = std::make_shared<bool>(false);
  command->footer(kFooter);
  command->add_flag("--json", *json, "an object, for programs");
  command->callback(
      [&globals, &action, json] { action = [&globals, json] { return Examine(globals, *json); }; });
}

}  // namespace ranklog::cli
