// Parses the files of /proc that the system metrics come from. Input: the file. The kernel writes
// them, but programs and mount points have any name.

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "service/sample/limits.h"
#include "service/sample/mounts.h"
#include "service/sample/node_counters.h"
#include "service/sample/process/process_table.h"
#include "tests/fuzz/fuzz.h"

namespace ranklog::sample {
namespace {

void FuzzProcess(absl::string_view text) {
  ParseProcess(text);
  // Whatever the name of a program, its figures are found.
  const auto process = ParseProcess(absl::StrCat(
      "7 (", text, ") S 5 1 1 0 -1 0 0 0 0 0 3 4 0 0 20 0 2 0 99 1000 12 18446744073709551615\n"));
  MUST(process.has_value() && process->pid == 7 && process->parent == 5);
  MUST(process->cpu == 7 && process->threads == 2 && process->start == 99);
  MUST(process->resident_pages == 12);
}

void FuzzMounts(absl::string_view text) {
  std::vector<Mount> mounts = ParseMounts(text);
  for (const Mount& mount : mounts) {
    const Mount* const found = MountOf(mounts, mount.point);
    MUST(found == nullptr || absl::StartsWith(mount.point, found->point));
  }
  mounts.insert(mounts.begin(), {.number = "0:5",
                                 .root = "/",
                                 .point = "/sys/fs/cgroup",
                                 .type = "cgroup2",
                                 .source = "cgroup2"});
  // No path leads out of the mounted groups.
  const auto directory = CgroupDirectory(mounts, text);
  MUST(!directory.has_value() ||
       (absl::StartsWith(*directory, "/sys/fs/cgroup") && !absl::StrContains(*directory, "/..")));
}

void FuzzCounters(absl::string_view text) {
  const auto memory = ParseMemory(text);
  MUST(!memory.has_value() || memory->total > 0);
  for (const Traffic& interface : ParseNetwork(text)) {
    MUST(!interface.device.empty() && interface.device != "lo");
  }
  ParseTcpRetransmits(text);
  for (const Disk& disk : ParseDisks(text)) MUST(!disk.traffic.device.empty());
  MUST(ParseCores(text).size() <= text.size());
  std::vector<bool> cpus;
  MarkCpus(text, cpus);
  MUST(cpus.size() <= 1 << 16);
  MUST(cpus.empty() || cpus.back());
}

}  // namespace
}  // namespace ranklog::sample

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text = ranklog::fuzz::Text(data, size);
  ranklog::sample::FuzzProcess(text);
  ranklog::sample::FuzzMounts(text);
  ranklog::sample::FuzzCounters(text);
  return 0;
}
