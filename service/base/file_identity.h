// Checks whether a path still refers to the same file.

#ifndef SERVICE_BASE_FILE_IDENTITY_H_
#define SERVICE_BASE_FILE_IDENTITY_H_

#include <errno.h>
#include <sys/stat.h>

#include <string>

namespace ranklog {

// The caller must hold the file open meanwhile, or its inode may be reused for another file.
// Thread-safe. Costs a system call.
class FileIdentity {
 public:
  FileIdentity() = default;  // no file: always in place
  // The file to which `path` refers now, without following a symbolic link at its end. No file if
  // lstat() fails.
  explicit FileIdentity(const std::string& path) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return;
    path_ = path;
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }

  // False if the path refers to nothing or to another file. True if the check fails for another
  // reason.
  bool InPlace() const {
    if (path_.empty()) return true;
    struct stat info {};
    if (lstat(path_.c_str(), &info) != 0) return errno != ENOENT && errno != ENOTDIR;
    return info.st_dev == device_ && info.st_ino == inode_;
  }

 private:
  std::string path_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace ranklog

#endif  // SERVICE_BASE_FILE_IDENTITY_H_
