#include "service/cli/doctor/spool_check.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/text/number_text.h"
#include "service/base/text/printable.h"
#include "service/cli/node/spools/spool_files.h"
#include "service/cli/node/spools/stranded_spools.h"
#include "service/cli/node/spools/unread_spools.h"

namespace ranklog::cli {

absl::optional<Finding> CheckSpoolOwner(const v1::PrivateDir& dir) {
  if (!v1::IsTaken(dir)) return absl::nullopt;
  struct stat info {};
  lstat(dir.path.c_str(), &info);
  return Finding{"spool",
                 {{"path", dir.path}, {"owner", info.st_uid}, {"mode", info.st_mode & 07777}},
                 dir.path + " is not a private directory of your own",
                 absl::StrCat("ranks and the daemon ignore it: ", v1::UnusableReason(dir),
                              info.st_uid == geteuid() ? "" : ", or ask its owner to remove it")};
}

absl::optional<Finding> CheckRings(const std::string& dir) {
  size_t rings = 0;
  size_t damaged = 0;
  int64_t bytes = 0;
  std::vector<std::string> others;  // rings of other versions
  std::error_code error;
  for (std::filesystem::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StartsWith(name, "ring-")) continue;
    ++(absl::EndsWith(name, ".damaged") ? damaged : rings);
    if (const std::string version = OtherVersion(entry->path().string()); !version.empty()) {
      others.push_back(absl::StrCat(name, " (", Printable(version), ")"));
    }
    struct stat info {};
    if (stat(entry->path().c_str(), &info) == 0) bytes += info.st_blocks * 512;
  }
  if (rings + damaged == 0) return absl::nullopt;
  Finding finding{"spool",
                  {{"path", dir},
                   {"rings", rings},
                   {"damaged", damaged},
                   {"other_versions", others},
                   {"bytes", bytes}},
                  absl::StrCat(dir, ", ", Counted(rings, "ring"), ", ", damaged, " damaged, ",
                               BytesText(bytes)),
                  ""};
  if (damaged > 0) {
    finding.advice =
        "damaged rings were renamed to *.damaged; remove them when you no longer need them";
  }
  if (!others.empty()) {
    finding.advice =
        absl::StrCat("another version of Ranklog wrote ", absl::StrJoin(others, ", "),
                     "; run the ranklogd of that version to store their rows; until then they stay "
                     "unchanged",
                     finding.advice.empty() ? "" : "; ", finding.advice);
  }
  return finding;
}

absl::optional<Finding> CheckUnreadSpools(const Globals& globals, const std::string& dir) {
  const std::vector<UnreadSpool> left = FindUnreadSpools(globals, dir);
  if (left.empty()) return absl::nullopt;
  std::vector<std::string> paths;
  for (const UnreadSpool& spool : left) paths.push_back(spool.path);
  return Finding{"spool",
                 {{"left", paths}, {"left_rows", UnreadRows(left)}},
                 UnreadSpoolsText(left),
                 UnreadSpoolsAdvice(globals, dir, left)};
}

std::vector<Finding> CheckStrandedSpools(const Globals& globals, const std::string& dir) {
  std::vector<Finding> findings;
  for (const StrandedSpool& spool : FindStrandedSpools(globals, dir)) {
    if (spool.advice.empty()) continue;
    findings.push_back({"spool",
                        {{"path", spool.ring.path}, {"stranded", spool.text}},
                        absl::StrCat(Printable(spool.ring.path), ": ", spool.text),
                        spool.advice});
  }
  return findings;
}

std::vector<Finding> CheckUnnamedSpools(const std::vector<query::RunReport>& runs) {
  std::vector<Finding> findings;
  for (const query::RunReport& run : runs) {
    for (const std::string& unnamed : UnnamedTexts(run)) {
      findings.push_back(
          {"spool",
           {{"unnamed", unnamed}},
           Printable(unnamed),
           "free space there (df -h /dev/shm /var/tmp), or set RANKLOG_SPOOL_DIR to a "
           "local directory of your own, and start these ranks again"});
    }
  }
  return findings;
}

}  // namespace ranklog::cli
