// File systems that a test mounts for itself and its child processes. No other process sees them.

#ifndef TESTS_SUPPORT_OWN_MOUNTS_H_
#define TESTS_SUPPORT_OWN_MOUNTS_H_

#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <string>

namespace ranklog::testing {

// Gives this process its own mount namespace; returns false if the kernel does not allow it. A
// second call is harmless. The process must have one thread.
inline bool HasOwnMounts() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

// Makes `path` and mounts a small in-memory file system on it. The destructor unmounts it.
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

// Shows the directory `of` at `path`, where nobody can write, not even root. The destructor undoes
// it.
class ReadOnlyView {
 public:
  ReadOnlyView(const std::string& of, const std::string& path) : path_(path) {
    std::filesystem::create_directories(path);
    bound_ = mount(of.c_str(), path.c_str(), nullptr, MS_BIND, nullptr) == 0;
    read_only_ = bound_ && mount("none", path.c_str(), nullptr, MS_BIND | MS_REMOUNT | MS_RDONLY,
                                 nullptr) == 0;
  }
  ~ReadOnlyView() {
    if (bound_) umount2(path_.c_str(), MNT_DETACH);
  }
  ReadOnlyView(const ReadOnlyView&) = delete;
  ReadOnlyView& operator=(const ReadOnlyView&) = delete;

  bool read_only() const { return read_only_; }

 private:
  const std::string path_;
  bool bound_ = false, read_only_ = false;
};

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_OWN_MOUNTS_H_
