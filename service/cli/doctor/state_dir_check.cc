#include "service/cli/doctor/state_dir_check.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/base/text/printable.h"
#include "service/cli/node/disk_outlook.h"
#include "service/storage/directories/file_system.h"
#include "service/storage/directories/state_dirs.h"
#include "service/storage/directories/state_lock.h"

namespace ranklog::cli {

Finding CheckStateDir(const std::string& dir) {
  struct stat info {};
  if (stat(dir.c_str(), &info) != 0) {
    Finding missing{
        "directory", {{"path", dir}, {"present", false}}, dir + " does not exist yet", ""};
    if (const absl::Status usable = storage::CheckUsable(dir); !usable.ok()) {
      missing.advice = Printable(absl::StrCat(std::string(usable.message()),
                                              "; choose another directory with --state-dir or "
                                              "RANKLOG_STATE_DIR"));
    }
    return missing;
  }
  Finding finding{
      "directory", {{"path", dir}, {"present", true}, {"mode", info.st_mode & 07777}}, dir, ""};
  const absl::Status usable = storage::CheckUsable(dir);
  // CheckDaemon() reports the daemon that holds it.
  if (!usable.ok() && !absl::IsAlreadyExists(usable)) {
    finding.advice = Printable(std::string(usable.message()));
  }
  return finding;
}

std::vector<Finding> ListSkippedDirs(const std::string& dir) {
  const std::vector<std::string> dirs = storage::DefaultStateDirs();
  std::error_code ignored;
  const auto chosen = std::find_if(dirs.begin(), dirs.end(), [&](const std::string& each) {
    return each == dir || std::filesystem::equivalent(each, dir, ignored);
  });
  if (chosen == dirs.end()) return {};  // the user named the directory
  std::vector<Finding> findings;
  for (auto each = dirs.begin(); each != chosen; ++each) {
    const absl::Status usable = storage::CheckUsable(*each);
    std::string why = "it has no store";
    if (!usable.ok()) {
      why = std::string(usable.message());
    } else if (storage::StateLock::Holder(dir) != 0) {
      why =
          "usable now, but the running daemon uses another directory; the next daemon will use it";
    }
    findings.push_back({"skipped",
                        {{"path", *each}, {"reason", why}},
                        absl::StrCat(*each, " is skipped: ", why),
                        ""});
  }
  return findings;
}

Finding CheckFreeSpace(const std::string& dir, const absl::optional<DaemonStatus>& daemon) {
  constexpr int64_t kLittle = 256 << 20;  // enough for minutes of a fast training
  const DiskOutlook disk =
      CheckDisk(dir, daemon ? daemon->growth_per_second : absl::optional<double>());
  const absl::string_view is_volatile = storage::VolatileFileSystemName(dir);
  Finding finding{
      "disk",
      {{"bytes", disk.bytes}, {"free_bytes", disk.free_bytes}, {"volatile", !is_volatile.empty()}},
      DiskText(disk),
      ""};
  if (!is_volatile.empty()) {
    absl::StrAppend(&finding.text, "; on ", is_volatile,
                    ", which ends with this container or machine");
  }
  if (disk.bytes != 0 && disk.free_bytes < kLittle) {
    finding.advice = "free space on it, or use another disk (--state-dir of ranklogd)";
  } else if (disk.lasts && *disk.lasts < absl::Hours(24)) {
    finding.advice = "free space on it, or keep less (--keep-for, --keep-bytes of ranklogd)";
  }
  return finding;
}

}  // namespace ranklog::cli
