// A rank's spool file, held open from the moment the rank attaches, so that what is in it survives
// the rank, its mount namespace and the file's name.

#ifndef SERVICE_INGEST_RING_FILE_H_
#define SERVICE_INGEST_RING_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "service/ingest/peer.h"
#include "service/ingest/unique_fd.h"

namespace ranklog::ingest {

// Immutable once made; thread-safe.
class RingFile {
 public:
  // What a rank says of its ring.
  struct Claim {
    std::string path;  // as the rank sees it; empty for a memfd
    uint64_t device = 0;
    uint64_t inode = 0;
    uint64_t file_bytes = 0;
  };

  // Opens the ring of a rank that attaches: by its path, if that is the inode that the rank means,
  // else through the rank's root directory in /proc.
  //   kNotFound          neither leads there: the rank is to pass the descriptor
  //   kPermissionDenied  it is not a regular file of the peer's user, or too short: not to be
  //   trusted
  static absl::StatusOr<std::shared_ptr<const RingFile>> OpenClaimed(const Claim& claim,
                                                                     const Peer& peer);
  // Takes the descriptor that a rank passed.
  //   kPermissionDenied  as above
  static absl::StatusOr<std::shared_ptr<const RingFile>> FromDescriptor(UniqueFd fd,
                                                                        const Peer& peer);
  // Opens a file that lies in one of our spool directories.
  //   kNotFound          it is gone
  //   kPermissionDenied  as above
  static absl::StatusOr<std::shared_ptr<const RingFile>> OpenLeft(const std::string& path);

  int fd() const { return fd_.get(); }
  // Its name in our view of the file system; empty: it has none that we know.
  const std::string& path() const { return path_; }
  uint64_t inode() const { return inode_; }
  uint64_t device() const { return device_; }
  int64_t modified_us() const;  // Unix time of the last change that the file system saw

  // Whether a process holds the lock that the owner takes when it makes the ring, and loses when it
  // dies.
  bool locked() const;
  // Removes the name, if it still leads to this file.
  void Unlink() const;
  // Gives it the name `path`.damaged, so that nobody reads it again and nothing is destroyed.
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

#endif  // SERVICE_INGEST_RING_FILE_H_
