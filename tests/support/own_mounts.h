// File systems that a test mounts for itself and the programs it starts, seen by nobody else.

#ifndef TESTS_SUPPORT_OWN_MOUNTS_H_
#define TESTS_SUPPORT_OWN_MOUNTS_H_

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace ranklog::testing {

// Gives this process mounts of its own; false where it may not have them. Twice is harmless. Called
// while the process has one thread.
inline bool HasOwnMounts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// A small file system in memory at `path`, which is made; it goes with this object.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, const std::string& size) : path_(path) {
    std::filesystem::create_directories(path);
    mounted_ = mount("none", path.c_str(), "tmpfs", 0, ("size=" + size + ",mode=700").c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) umount2(path_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  bool mounted() const { return mounted_; }

 private:
  const std::string path_;
  bool mounted_ = false;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_OWN_MOUNTS_H_
