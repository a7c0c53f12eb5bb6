// A ring in a shared file that outlives the process. spool.md describes the file; spool_layout.h is
// its code.
//
// One thread writes (RingWriter), the sender reads and frees (RingReader), and the daemon reads
// what is left when the process dies. This class makes, maps and removes the file.

#ifndef CLIENT_SPOOL_H_
#define CLIENT_SPOOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/spool_dir.h"
#include "ranklog/v1/ranklog.pb.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

class Spool {
 public:
  struct Options {
    std::string dir;                            // tried first; empty: only the standard ones
    size_t ring_bytes = v1::kDefaultRingBytes;  // rounded up to pages
    size_t record_bytes = 0;  // that are to fit: a later ring is then as large as the first
  };

  // Makes a ring in the first usable directory, or in anonymous memory when there is none. Rings
  // after a process's first one, and those where there is little room, are smaller (see spool.md).
  // Every page is reserved, so no later write can fail; the first ones are touched, too. `hello`
  // gets its incarnation, unless it has one, and its ring filled in, and goes into the file without
  // its credentials. Costs 2 to 3 ms for 8 MiB. Until Publish() the daemon takes the file for
  // an unfinished one: it removes the file when this process has ended.
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
  const std::string& path() const { return path_; }  // empty: anonymous
  const v1::Hello& hello() const { return hello_; }  // without credentials
  // Why it does not lie where it should, for people; empty if it does.
  const std::string& notice() const { return notice_; }

  // Touches the pages that Create() did not, so that who logs need not take their faults. For one
  // thread that may take its time, beside those that write and read.
  void TouchRest();

  // From now on the daemon takes what is in the ring when this process ends. Costs one store.
  void Publish();

  // Removes the file's name: nobody will need what is in it.
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
  uint32_t hello_bytes_ = 0;  // of the serialized one in the file
  std::string notice_;
};

}  // namespace ranklog::internal

#endif  // CLIENT_SPOOL_H_
