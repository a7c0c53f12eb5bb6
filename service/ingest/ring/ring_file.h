// A rank's spool file, held open from the rank's attach on. So its contents outlive the rank, its
// mount namespace and the file's name.

#ifndef SERVICE_INGEST_RING_RING_FILE_H_
#define SERVICE_INGEST_RING_RING_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/base/unique_fd.h"
#include "service/ingest/ring/peer.h"

namespace ranklog::v1 {
class Ring;
}

namespace ranklog::ingest {

// Immutable after construction; thread-safe.
class RingFile {
 public:
  // Opens the ring of a rank that attaches, as its Hello describes it. Uses the path if it leads to the rank's inode, else the
  // same path below the rank's root directory in /proc.
  //   kNotFound          neither leads to the inode: ask the rank to pass the descriptor
  //   kPermissionDenied  not a regular file of the peer's user, or of another size
  static absl::StatusOr<std::shared_ptr<const RingFile>> OpenClaimed(const v1::Ring& claim,
                                                                     const Peer& peer);
  // Takes the descriptor that a rank passed.
  //   kPermissionDenied  not a regular file of the peer's user, or too short
  static absl::StatusOr<std::shared_ptr<const RingFile>> FromDescriptor(UniqueFd fd,
                                                                        const Peer& peer);
  // Opens a file in one of our spool directories.
  //   kNotFound          it cannot be opened
  //   kPermissionDenied  not a regular file of this user, or too short
  static absl::StatusOr<std::shared_ptr<const RingFile>> OpenLeft(const std::string& path);

  int fd() const { return fd_.get(); }
  // Its name in this process's view of the file system; empty if no name is known.
  const std::string& path() const { return path_; }
  uint64_t inode() const { return inode_; }
  uint64_t device() const { return device_; }
  // Unix time of the last modification, as the file system recorded it.
  int64_t modified_us() const;

  // Whether a process holds the lock. The owner takes the lock when it creates the ring, and loses
  // it when it dies.
  bool locked() const;
  // Removes the name if it still leads to this file.
  void Unlink() const;
  // Renames the file to `path`.damaged: nothing reads it again, and nothing is destroyed.
  void SetAside() const;

 private:
  RingFile() = default;
  static absl::StatusOr<std::shared_ptr<const RingFile>> Check(UniqueFd fd, std::string path,
                                                               uid_t owner);
  bool NameIsOurs() const;

  UniqueFd fd_;
  std::string path_;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_RING_FILE_H_
