#include "trainer/data/tokens.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

static_assert(std::endian::native == std::endian::little);  // of the files' 16-bit tokens

// A descriptor that is open while this object exists.
struct MappedFile {
  explicit MappedFile(const std::string& path) : fd(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~MappedFile() {
    if (fd >= 0) close(fd);
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  const int fd;
};

constexpr size_t kDigestPieces = 64;
constexpr size_t kDigestPiece = 1 << 20;  // bytes

// A mapped file, and the message for a read that fails.
struct Mapping {
  const char* first;
  size_t size;
  std::string message;
};
// Read by a signal handler. Contains only the first mappings.
std::array<std::atomic<const Mapping*>, 8> mappings;
static_assert(std::atomic<const Mapping*>::is_always_lock_free);

// Prints the reason before the kernel ends the process: a SIGBUS alone does not name the file.
// After the handler returns, the kernel repeats the read, and the second SIGBUS ends the process.
void OnBusError(int, siginfo_t* info, void*) {
  const char* const address = static_cast<const char*>(info->si_addr);
  for (const std::atomic<const Mapping*>& slot : mappings) {
    const Mapping* const mapping = slot.load();
    if (mapping == nullptr || address < mapping->first || address >= mapping->first + mapping->size)
      continue;
    WriteFromHandler(mapping->message.data(), mapping->message.size());
    return;
  }
  constexpr char kText[] =
      "\nranklog-train: SIGBUS: a mapped file was shortened while it was in use, or its disk "
      "failed\n";
  WriteFromHandler(kText, sizeof kText - 1);
}

void ExplainBusErrors() {
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_RESETHAND | SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

// Keeps the mapping for OnBusError() until the memory is released, and unmaps it then.
std::shared_ptr<const void> Watched(void* address, size_t size, const std::string& path) {
  auto* const mapping = new Mapping{
      static_cast<const char*>(address), size,
      absl::StrCat("\nranklog-train: SIGBUS: ", path,
                   " was shortened while it was in use, or its disk failed. Leave the --data and "
                   "the cache as they are during a training\n")};
  std::atomic<const Mapping*>* own = nullptr;
  for (std::atomic<const Mapping*>& slot : mappings) {
    const Mapping* empty = nullptr;
    if (!slot.compare_exchange_strong(empty, mapping)) continue;
    own = &slot;
    break;
  }
  return {address, [mapping, own](const void* mapped) {
            if (own != nullptr) own->store(nullptr);
            munmap(const_cast<void*>(mapped), mapping->size);
            delete mapping;
          }};
}

template <typename Token>
int64_t LargestOf(const Token* first, size_t size) {
  Token largest = 0;
  for (size_t i = 0; i < size; ++i) largest = std::max(largest, first[i]);
  return largest;
}

}  // namespace

Tokens::Tokens(std::vector<uint8_t> tokens) {
  const auto owned = std::make_shared<const std::vector<uint8_t>>(std::move(tokens));
  *this = Tokens(owned, owned->data(), owned->size(), 1);
}

Tokens::Tokens(std::vector<uint16_t> tokens) {
  const auto owned = std::make_shared<const std::vector<uint16_t>>(std::move(tokens));
  *this = Tokens(owned, reinterpret_cast<const uint8_t*>(owned->data()), owned->size(), 2);
}

absl::StatusOr<Tokens> Tokens::Map(const std::string& path, int width, size_t offset) {
  const MappedFile file(path);
  struct stat info = {};
  if (file.fd < 0 || fstat(file.fd, &info) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot open ", path, ": not a regular file"));
  }
  const auto size = static_cast<size_t>(info.st_size);
  if (size < offset || (size - offset) % width != 0) {
    return absl::DataLossError(absl::StrCat("cannot read ", path,
                                            ": damaged: it ends inside a token: ", size, " bytes, ",
                                            width, " per token"));
  }
  if (size == offset) return Tokens();
  void* const address = mmap(nullptr, size, PROT_READ, MAP_SHARED, file.fd, 0);
  if (address == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", path, ": ", std::strerror(errno)));
  }
  ExplainBusErrors();
  std::shared_ptr<const void> memory = Watched(address, size, path);
  return Tokens(std::move(memory), static_cast<const uint8_t*>(address) + offset,
                (size - offset) / width, width);
}

void Tokens::Copy(size_t begin, size_t count, int64_t* out) const {
  assert(begin <= size_ && count <= size_ - begin);
  if (width_ == 1) {
    std::copy_n(first_ + begin, count, out);
  } else {
    std::copy_n(reinterpret_cast<const uint16_t*>(first_) + begin, count, out);
  }
}

Tokens Tokens::Part(size_t begin, size_t count) const {
  assert(begin <= size_ && count <= size_ - begin);
  return Tokens(memory_, first_ + begin * width_, count, width_);
}

uint32_t Tokens::Digest() const {
  const size_t bytes = size_ * width_;
  if (bytes <= kDigestPieces * kDigestPiece) return crc32_z(0, first_, bytes);
  uint32_t crc = 0;
  const size_t last = bytes - kDigestPiece;
  for (size_t i = 0; i + 1 < kDigestPieces; ++i) {
    crc = crc32_z(crc, first_ + last / (kDigestPieces - 1) * i, kDigestPiece);
  }
  return crc32_z(crc, first_ + last, kDigestPiece);
}

int64_t Tokens::Largest() const {
  if (size_ == 0) return -1;
  return width_ == 1 ? LargestOf(first_, size_)
                     : LargestOf(reinterpret_cast<const uint16_t*>(first_), size_);
}

size_t WindowCount(const Tokens& tokens, size_t seq_len) {
  return tokens.size() == 0 ? 0 : (tokens.size() - 1) / seq_len;
}

}  // namespace ranklog::trainer
