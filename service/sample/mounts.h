// The mounts that /proc/self/mountinfo lists.

#ifndef SERVICE_SAMPLE_MOUNTS_H_
#define SERVICE_SAMPLE_MOUNTS_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace ranklog::sample {

struct Mount {
  std::string number;  // major:minor of the file system's device; 0:x if it has no device
  std::string root;    // the directory of the file system that is mounted
  std::string point;   // where it is mounted
  std::string type;    // ext4, cgroup2, ...
  std::string source;  // /dev/sda1, ...
};

std::vector<Mount> ParseMounts(absl::string_view mountinfo);

// The mount that contains the absolute path; null if there is none.
const Mount* MountOf(const std::vector<Mount>& mounts, absl::string_view path);

// The directory of a control group (version 2) below its mount point, e.g. /sys/fs/cgroup/job_7;
// nullopt if no mount shows it. `cgroup`: the content of /proc/PID/cgroup.
absl::optional<std::string> CgroupDirectory(const std::vector<Mount>& mounts,
                                            absl::string_view cgroup);
// The mount point of control groups (version 2); empty if they are not mounted.
std::string CgroupMountPoint(const std::vector<Mount>& mounts);

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_MOUNTS_H_
