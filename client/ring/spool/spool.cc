#include "client/ring/spool/spool.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/base/descriptor.h"
#include "client/base/process.h"
#include "client/base/text/keys.h"
#include "client/ring/spool/spool_room.h"

namespace ranklog::internal {
namespace {

// The part that is touched before the first row. With the kernel's zeroing and mapping, a page
// costs over a microsecond, so all 8 MiB would cost more than Init() may take.
constexpr size_t kTouchedFirst = v1::kSpoolDataOffset + (512 << 10);
// While the kernel works on one range, no other thread can map or unmap memory.
constexpr size_t kTouchStretch = 256 << 10;
// The risk for a rank without a spool file.
constexpr char kNoFile[] =
    "the spool is in anonymous memory; its rows are lost if this process ends before a daemon "
    "answers";

absl::Status ErrnoStatus(const std::string& doing) {
  const std::string message = absl::StrCat("cannot ", doing, ": ", strerror(errno));
  const bool full = errno == ENOSPC || errno == EDQUOT || errno == ENOMEM;
  return full ? absl::ResourceExhaustedError(message) : absl::UnavailableError(message);
}

uint64_t RandomIncarnation() {
  uint64_t value = 0;
  while (value == 0) {
    if (getrandom(&value, sizeof value, 0) != sizeof value) value = 0;
  }
  return value;
}

// For a ring that may have at most `most` bytes of data.
std::string LimitNotice(size_t wanted, size_t most) {
  return absl::StrCat("the spool needs ", v1::kSpoolDataOffset + wanted,
                      " bytes, and the file size limit of this process is ", MostFileBytes(),
                      "; raise the limit (ulimit -f)",
                      most < wanted && most > 0 ? "; until then the spool is smaller" : "");
}

size_t LeastBytes(size_t record_bytes) { return std::max(v1::kMinRingBytes, 2 * record_bytes); }

// Threads after the first get a sixteenth: most of them log little, and there may be hundreds.
size_t WantedBytes(size_t ring_bytes, uint32_t thread, size_t record_bytes) {
  if (thread > 0 && record_bytes == 0) {
    ring_bytes = std::min(ring_bytes, std::max(ring_bytes / 16, v1::kLaterRingBytes));
  }
  // An item may be larger than rows may be. Then also a second one has room without a daemon.
  if (2 * record_bytes > ring_bytes) ring_bytes = std::min(4 * record_bytes, v1::kMaxRingBytes);
  return RoundUpToPages(ring_bytes);
}

struct CloseDir {
  void operator()(DIR* dir) const { closedir(dir); }
};

// The bytes of all rings in a directory, from all processes.
uint64_t BytesOfRings(const std::string& dir) {
  uint64_t bytes = 0;
  const std::unique_ptr<DIR, CloseDir> open(opendir(dir.c_str()));
  while (const dirent* entry = open ? readdir(open.get()) : nullptr) {
    struct stat info;
    if (strncmp(entry->d_name, "ring-", 5) == 0 &&
        fstatat(dirfd(open.get()), entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0) {
      bytes += static_cast<uint64_t>(info.st_blocks) * 512;
    }
  }
  return bytes;
}

// The room in a directory. With `all_are_rings`, every file counts as a ring: the result is a lower
// bound, and does not need a look at each ring.
SpoolRoom RoomIn(const std::string& dir, bool all_are_rings) {
  struct statvfs info;
  if (statvfs(dir.c_str(), &info) != 0) return {};
  const uint64_t free = static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
  if (!all_are_rings) return SpoolRoom::Of(free, BytesOfRings(dir));
  return SpoolRoom::AtLeast(free,
                            static_cast<uint64_t>(info.f_blocks - info.f_bfree) * info.f_frsize);
}

size_t FittingBytes(const std::string& dir, size_t wanted, size_t least,
                    const v1::Identity& identity) {
  const size_t bytes = FittingBytes(RoomIn(dir, /*all_are_rings=*/true), wanted, least, identity);
  if (bytes == wanted) return bytes;
  return FittingBytes(RoomIn(dir, /*all_are_rings=*/false), wanted, least, identity);
}

// The `look` of SettledBytes().
SpoolRoom LookAgain(const std::string& dir) {
  const SpoolRoom room = RoomIn(dir, /*all_are_rings=*/true);
  return room.IsOverfull() ? RoomIn(dir, /*all_are_rings=*/false) : room;
}

bool SetLock(int fd, int16_t type) {
  struct flock lock = {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return fcntl(fd, F_SETLK, &lock) == 0;
}

absl::Status LittleRoom(const std::string& dir) {
  return absl::ResourceExhaustedError(
      absl::StrCat("the file system of ", dir,
                   " has too little space for a spool, because spools use at most a quarter of the "
                   "free space; free some, or set RANKLOG_SPOOL_DIR"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Create(const Options& options, v1::Hello hello) {
  std::unique_ptr<Spool> spool(new Spool);
  size_t wanted = WantedBytes(options.ring_bytes, hello.identity().thread(), options.record_bytes);
  std::string limited;
  if (const uint64_t most = MostFileBytes(); v1::kSpoolDataOffset + wanted > most) {
    const size_t fits =
        most > v1::kSpoolDataOffset ? RoundDownToPages(most - v1::kSpoolDataOffset) : 0;
    const bool enough = fits >= LeastBytes(options.record_bytes);
    limited = LimitNotice(wanted, enough ? fits : 0);
    if (!enough) return absl::ResourceExhaustedError(limited);
    wanted = fits;
  }
  spool->data_bytes_ = wanted;
  absl::Status status;
  uint64_t incarnation = hello.stream().incarnation();
  if (incarnation == 0) incarnation = RandomIncarnation();

  status = spool->CreateInAnyDirectory(options, hello, incarnation);
  if (!status.ok()) {
    spool->data_bytes_ = wanted;
    status = spool->CreateAnonymous();
  }
  if (!limited.empty()) {
    absl::StrAppend(&spool->notice_, spool->notice_.empty() ? "" : "; ", limited);
  }
  if (status.ok()) status = spool->WriteHeader(std::move(hello), incarnation);
  if (!status.ok()) {
    spool->Unlink();
    return status;
  }
  return spool;
}

absl::Status Spool::CreateInAnyDirectory(const Options& options, const v1::Hello& hello,
                                         uint64_t incarnation) {
  std::vector<PrivateDir> dirs = StandardDirs();
  if (!options.dir.empty()) dirs.insert(dirs.begin(), {options.dir, /*create=*/true});
  const size_t least = LeastBytes(options.record_bytes);
  const size_t wanted = data_bytes_;
  absl::Status status;
  std::vector<std::string> passed_over;
  for (const PrivateDir& dir : dirs) {
    status = Prepare(dir);
    if (status.ok()) {
      data_bytes_ = FittingBytes(dir.path, wanted, least, hello.identity());
      status = data_bytes_ == 0 ? LittleRoom(dir.path) : CreateNamed(dir, least, incarnation);
    }
    if (status.ok()) break;
    // If an administrator made no directory for us, that is not a problem.
    if (absl::IsNotFound(status) && !dir.create) continue;
    passed_over.emplace_back(status.message());
  }
  if (passed_over.empty()) return status;
  notice_ = absl::StrCat(absl::StrJoin(passed_over, "; "), "; ",
                         status.ok() ? "the spool is at " + path_ : kNoFile);
  return status;
}

absl::Status Spool::CreateNamed(const PrivateDir& dir, size_t least, uint64_t incarnation) {
  absl::Status status;
  path_ = absl::StrCat(dir.path, "/ring-", getpid(), "-", absl::Hex(incarnation, absl::kZeroPad16),
                       ".spool");
  fd_ =
      AboveStandard(open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (fd_ < 0) {
    status = ErrnoStatus("create " + path_);
    path_.clear();
    return status;
  }
  // The daemon opens the file by its path, whatever the umask of this process.
  if (fchmod(fd_, 0600) != 0) status = ErrnoStatus("set the mode of " + path_);
  // Not posix_fallocate(): it writes zeros if the file system cannot reserve blocks.
  if (status.ok() && fallocate(fd_, 0, 0, static_cast<off_t>(file_bytes())) != 0) {
    status = ErrnoStatus("reserve " + path_);
  }
  // Rings that are made at the same time see one another only from here on.
  if (status.ok()) {
    const auto shrink = [this, &status](size_t bytes) {
      data_bytes_ = bytes;
      if (ftruncate(fd_, static_cast<off_t>(file_bytes())) == 0) return true;
      status = ErrnoStatus("shrink " + path_);
      return false;
    };
    const auto look = [&dir] { return LookAgain(dir.path); };
    if (SettledBytes(data_bytes_, least, look, shrink) == 0 && status.ok()) {
      status = LittleRoom(dir.path);
    }
  }
  if (status.ok()) status = MapAndLock();
  if (!status.ok()) {
    Unlink();
    close(std::exchange(fd_, -1));
  }
  return status;
}

absl::Status Spool::CreateAnonymous() {
  fd_ = AboveStandard(memfd_create("ranklog-spool", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (fd_ < 0) return ErrnoStatus("create anonymous memory for the spool");
  if (ftruncate(fd_, static_cast<off_t>(file_bytes())) != 0 ||
      fallocate(fd_, 0, 0, static_cast<off_t>(file_bytes())) != 0) {
    return ErrnoStatus("reserve anonymous memory for the spool");
  }
  // Sealed, so that the daemon may trust its size.
  fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return MapAndLock();
}

absl::Status Spool::MapAndLock() {
  void* memory = mmap(nullptr, file_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) return ErrnoStatus("map the spool");
  header_ = static_cast<v1::SpoolHeader*>(memory);
  touched_ = std::min(kTouchedFirst, file_bytes());
  if (!Touch(0, touched_)) {
    // A kernel before 5.14. Pages can be touched by writes only now, before others use them.
    touched_ = file_bytes();
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    for (size_t at = 0; at < touched_; at += page) static_cast<volatile char*>(memory)[at] = 0;
  }
  new (memory) v1::SpoolHeader();
  // A lock of the process, not of the descriptor. A forked child does not hold it, and the kernel
  // releases it when this process ends, by any cause. So the daemon knows that the rank is alive.
  if (!SetLock(fd_, F_WRLCK)) {
    const absl::Status status = ErrnoStatus("lock the spool");
    munmap(memory, file_bytes());
    header_ = nullptr;
    return status;
  }
  return absl::OkStatus();
}

bool Spool::Touch(size_t from, size_t to) {
  return madvise(reinterpret_cast<std::byte*>(header_) + from, to - from, MADV_POPULATE_WRITE) == 0;
}

void Spool::TouchRest() {
  while (touched_ < file_bytes()) {
    const size_t to = std::min(touched_ + kTouchStretch, file_bytes());
    if (!Touch(touched_, to)) return;  // then Log() takes the faults
    touched_ = to;
  }
}

absl::Status Spool::WriteHeader(v1::Hello hello, uint64_t incarnation) {
  struct stat info;
  if (fstat(fd_, &info) != 0) return ErrnoStatus("stat the spool");
  hello.set_protocol(v1::kProtocolVersion);
  hello.clear_credentials();
  hello.mutable_stream()->set_incarnation(incarnation);
  // Protobuf takes only UTF-8. Without a path, the daemon asks for the descriptor.
  hello.mutable_ring()->set_path(IsUtf8(path_) ? path_ : "");
  if (path_.empty()) hello.mutable_ring()->set_unnamed(IsUtf8(notice_) ? notice_ : kNoFile);
  hello.mutable_ring()->set_device(info.st_dev);
  hello.mutable_ring()->set_inode(info.st_ino);
  hello.mutable_ring()->set_file_bytes(file_bytes());

  const size_t size = hello.ByteSizeLong();
  if (size > v1::kSpoolHelloBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the settings take ", size, " bytes, over ",
                                                   v1::kSpoolHelloBytes, ": shorten the notes"));
  }
  hello.SerializeToArray(reinterpret_cast<char*>(header_) + v1::kSpoolHeaderBytes,
                         static_cast<int>(size));
  hello_ = std::move(hello);
  hello_bytes_ = static_cast<uint32_t>(size);

  header_->version = v1::kSpoolVersion;
  header_->header_bytes = v1::kSpoolHeaderBytes;
  header_->data_offset = v1::kSpoolDataOffset;
  header_->data_bytes = data_bytes_;
  header_->incarnation = incarnation;
  header_->magic = v1::kSpoolMagic;
  return absl::OkStatus();
}

void Spool::Publish() { header_->hello_bytes.store(hello_bytes_, std::memory_order_release); }

void Spool::Unlock() { SetLock(fd_, F_UNLCK); }

Spool::~Spool() {
  if (header_ != nullptr) munmap(header_, file_bytes());
  if (fd_ >= 0) close(fd_);
}

void Spool::Unlink() {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

}  // namespace ranklog::internal
