// Tells whether a path still leads to the file that it led to.

#ifndef SERVICE_BASE_FILE_IDENTITY_H_
#define SERVICE_BASE_FILE_IDENTITY_H_

#include <errno.h>
#include <sys/stat.h>

#include <string>

namespace ranklog {

// Of a file that is held open meanwhile: else its inode may become another file's. Thread-safe;
// costs a system call.
class FileIdentity {
 public:
  FileIdentity() = default;  // of no file: always in place
  // Of the file that `path` leads to now, no link followed at its end; of none if it cannot be
  // seen.
  explicit FileIdentity(const std::string& path) {
    struct stat info {};
    if (lstat(path.c_str(), &info) != 0) return;
    path_ = path;
    device_ = info.st_dev;
    inode_ = info.st_ino;
  }

  // False if the path leads to nothing or to another file. A path that cannot be looked at for
  // another reason says nothing: true.
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
