// A ring in a shared file that outlives the process. spool_format.md describes the file;
// spool_layout.h defines its layout in code.
//
// One thread writes (RingWriter), the sender reads and frees (RingReader). After the process dies,
// the daemon reads the rest. This class makes, maps and removes the file.

#ifndef CLIENT_RING_SPOOL_SPOOL_H_
#define CLIENT_RING_SPOOL_SPOOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/private_dir.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

class Spool {
 public:
  struct Options {
    std::string dir;                            // tried first; empty: only the standard directories
    size_t ring_bytes = v1::kDefaultRingBytes;  // rounded up to pages
    // Size of the largest record that must fit. If not 0, the ring is at least as large as the first
    // ring of the process.
    size_t record_bytes = 0;
  };

  // Makes a ring in the first usable directory, or in anonymous memory if there is none. Later
  // rings of a process, and rings where there is little room, are smaller (see spool_placement.md).
  // Reserves every page, so no later write can fail, and touches the first pages. Sets the
  // incarnation (if unset) and the ring in `hello`, and stores `hello` in the file without its
  // credentials. Costs 2 to 3 ms for 8 MiB. Before Publish(), the daemon treats the file as
  // unfinished, and removes it after this process has ended.
  //   kResourceExhausted   not even anonymous memory is left
  //   kInvalidArgument     the Hello does not fit
  static absl::StatusOr<std::unique_ptr<Spool>> Create(const Options& options, v1::Hello hello);

  ~Spool();  // unmaps and closes; the file stays
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  v1::SpoolHeader* header() const { return header_; }
  std::byte* data() const { return reinterpret_cast<std::byte*>(header_) + v1::kSpoolDataOffset; }
  size_t data_bytes() const { return data_bytes_; }
  int fd() const { return fd_; }
  const std::string& path() const { return path_; }  // empty for anonymous memory
  const v1::Hello& hello() const { return hello_; }  // without credentials
  // Why the spool is not in the expected directory, as text for the user; empty if it is.
  const std::string& notice() const { return notice_; }

  // Touches the pages that Create() did not touch, so that threads that log do not take the page
  // faults. Call it on a background thread; others may write and read meanwhile.
  void TouchRest();

  // From now on, the daemon takes the ring's content after this process ends. Costs one store.
  void Publish();

  // Releases the lock, as the end of the process does. For a ring that the daemon reads live: the
  // daemon takes the rest, ends the stream, and removes the file.
  void Unlock();

  // Removes the file's name, when its content is no longer needed.
  void Unlink();

 private:
  Spool() = default;
  absl::Status CreateInAnyDirectory(const Options& options, const v1::Hello& hello,
                                    uint64_t incarnation);
  absl::Status CreateNamed(const PrivateDir& dir, size_t least, uint64_t incarnation);
  absl::Status CreateAnonymous();
  absl::Status MapAndLock();
  bool Touch(size_t from, size_t to);
  absl::Status WriteHeader(v1::Hello hello, uint64_t incarnation);
  size_t file_bytes() const { return v1::kSpoolDataOffset + data_bytes_; }

  int fd_ = -1;
  std::string path_;
  size_t data_bytes_ = 0;
  size_t touched_ = 0;  // bytes of the file
  v1::SpoolHeader* header_ = nullptr;
  v1::Hello hello_;
  uint32_t hello_bytes_ = 0;  // size of the serialized Hello in the file
  std::string notice_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_SPOOL_SPOOL_H_
