// A directory with the files of /proc and /sys that describe a node.

#ifndef TESTS_SERVICE_SAMPLE_FAKE_NODE_H_
#define TESTS_SERVICE_SAMPLE_FAKE_NODE_H_

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/sample/node_sampler.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

struct FakeProcess {
  pid_t pid = 0;
  pid_t parent = 1;
  uint64_t start = 100;  // clock ticks, as are `cpu` and `ended_children`
  uint64_t cpu = 0;
  uint64_t ended_children = 0;
  uint64_t pages = 0;
  uint64_t threads = 1;
  std::string name = "python";
  unsigned flags = 0x400000;
};

inline std::string StatOf(const FakeProcess& p) {
  return absl::StrCat(p.pid, " (", p.name, ") S ", p.parent, " 1 1 0 -1 ", p.flags, " 9 9 9 9 ",
                      p.cpu, " 0 ", p.ended_children, " 0 20 0 ", p.threads, " 0 ", p.start,
                      " 1000 ", p.pages, " 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0\n");
}

class FakeNode {
 public:
  // Four cores with two hardware threads each, 1000 MiB of memory, of which 750 are available, one
  // disk, no processes.
  FakeNode() {
    std::string stat = "cpu  0 0 0 0 0 0 0 0 0 0\n";
    for (int cpu = 0; cpu < 8; ++cpu) {
      absl::StrAppend(&stat, "cpu", cpu, " 10 0 10 80 0 0 0 0 0 0\n");
      Write(absl::StrCat("sys/devices/system/cpu/cpu", cpu, "/topology/core_cpus_list"),
            absl::StrCat(cpu % 4, ",", cpu % 4 + 4, "\n"));
    }
    Write("proc/stat", stat + "intr 5 5\n");
    Write("proc/meminfo",
          "MemTotal:       1024000 kB\nMemFree:  1 kB\nMemAvailable:   768000 kB\n");
    Write("proc/self/mountinfo",
          "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
          "23 22 0:5 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    Write("proc/net/snmp", "Tcp: RtoMin RetransSegs\nTcp: 200 50\n");
    Traffic("eth0", 1000, 2000);
    Disk(0, 0);
  }

  const std::string& root() const { return dir_.path(); }
  sample::NodeSampler::Options Options() const {
    sample::NodeSampler::Options options;
    options.root = root();
    options.nvml = "absent.so";
    return options;
  }

  // Overwrites the file in place, because it may be open.
  void Write(const std::string& path, const std::string& content) const {
    const std::filesystem::path file = root() + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << content;
  }
  void Remove(const std::string& path) const { std::filesystem::remove_all(root() + "/" + path); }

  void Put(const FakeProcess& process) const {
    Write(absl::StrCat("proc/", process.pid, "/stat"), StatOf(process));
  }
  void End(pid_t pid) const { Remove(absl::StrCat("proc/", pid)); }

  // The counters of an interface, beside the loopback interface.
  void Traffic(const std::string& interface, uint64_t received, uint64_t sent) const {
    Write("proc/net/dev",
          absl::StrCat("Inter-|   Receive   |  Transmit\n face |bytes  |bytes\n"
                       "    lo: 777 1 0 0 0 0 0 0 777 1 0 0 0 0 0 0\n ",
                       interface, ": ", received, " 1 0 0 0 0 0 0 ", sent, " 1 0 0 0 0 0 0\n"));
  }
  // The sectors that the disk sda1 has read and written.
  void Disk(uint64_t read, uint64_t written) const {
    Write("proc/diskstats",
          absl::StrCat("   7  0 loop0 1 0 5 1 1 0 5 1 0 1 1 0 0 0 0 0 0\n"
                       "   8  0 sda 1 0 5 1 1 0 5 1 0 1 1 0 0 0 0 0 0\n   8  1 sda1 1 0 ",
                       read + 8, " 1 1 0 ", written + 8, " 1 0 1 1 0 0 0 0 0 0\n"));
  }

 private:
  TempDir dir_;
};

// The value of that name; nullopt if there is none.
inline absl::optional<double> ValueOf(const sample::Values& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(),
                                  [&name](const auto& value) { return value.first == name; });
  if (found == values.end()) return absl::nullopt;
  return found->second;
}

inline absl::Time At(double seconds) { return absl::UnixEpoch() + absl::Seconds(seconds); }

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_SAMPLE_FAKE_NODE_H_
