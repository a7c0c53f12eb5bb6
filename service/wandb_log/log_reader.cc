#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/wandb_log/format.h"
#include "service/wandb_log/log_file.h"

namespace ranklog::wandb_log {
namespace {

uint8_t Byte(absl::string_view bytes, size_t i) { return static_cast<uint8_t>(bytes[i]); }

uint32_t StoredChecksum(absl::string_view header) {
  uint32_t crc = 0;
  for (int byte = 3; byte >= 0; --byte) crc = crc << 8 | Byte(header, byte);
  return crc;
}

bool IsZero(absl::string_view bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](char c) { return c == '\0'; });
}

// Fills `block` with the bytes of the file from `offset` on, at most its capacity.
absl::Status ReadInto(int fd, const std::string& path, uint64_t offset, std::string& block) {
  block.resize(kBlockBytes);
  size_t filled = 0;
  while (filled < block.size()) {
    const ssize_t bytes = pread(fd, block.data() + filled, block.size() - filled,
                                static_cast<off_t>(offset + filled));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) {
      const absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("read ", path));
      block.clear();
      return absl::UnavailableError(status.message());
    }
    if (bytes == 0) break;
    filled += static_cast<size_t>(bytes);
  }
  block.resize(filled);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogReader>> LogReader::Open(const std::string& path,
                                                           uint64_t from_offset) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    const absl::Status status = absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
    return absl::IsNotFound(status) ? status : absl::UnavailableError(status.message());
  }
  std::unique_ptr<LogReader> reader(
      new LogReader(path, std::move(fd), std::max(from_offset, kFileHeaderBytes)));
  ASSIGN_OR_RETURN(const absl::string_view start, reader->At(0));
  const absl::string_view header = start.substr(0, kFileHeaderBytes);
  if (header == kFileHeader) return reader;
  const absl::string_view magic = kFileHeader.substr(0, kFileHeaderBytes - 1);
  if (header.size() == kFileHeaderBytes && header.substr(0, magic.size()) == magic) {
    return absl::InvalidArgumentError(absl::StrCat(
        "read ", path, ": version ", Byte(header, magic.size()), " of the format is unknown"));
  }
  if (header == kFileHeader.substr(0, header.size())) {
    return absl::DataLossError(absl::StrCat("read ", path, ": it is shorter than its header"));
  }
  return absl::InvalidArgumentError(absl::StrCat("read ", path, ": it is not a .wandb log"));
}

absl::StatusOr<absl::optional<std::string>> LogReader::Next() {
  auto record = Find();
  // The next call must see what a writer has changed since.
  if (!record.ok() || !record->has_value()) block_.clear();
  return record;
}

absl::StatusOr<absl::optional<std::string>> LogReader::Find() {
  torn_ = false;
  std::string record;
  bool begun = false;
  for (uint64_t place = offset_;;) {
    const uint64_t left = kBlockBytes - place % kBlockBytes;
    if (left < kChunkHeaderBytes) {
      place += left;
      continue;
    }
    ASSIGN_OR_RETURN(const absl::string_view rest, At(place));
    if (rest.empty() && !begun) return absl::nullopt;
    if (rest.size() < kChunkHeaderBytes) return Torn(place, "the file ends within a record");
    const absl::string_view header = rest.substr(0, kChunkHeaderBytes);
    if (!begun && IsZero(header)) {  // a block that was never written
      place += left;
      continue;
    }
    const size_t size = Byte(header, 4) | static_cast<size_t>(Byte(header, 5)) << 8;
    const uint8_t type = Byte(header, 6);
    if (size > left - kChunkHeaderBytes) return Damaged(place, "a chunk is too long for its block");
    if (rest.size() < kChunkHeaderBytes + size) return Torn(place, "the file ends within a record");
    if (StoredChecksum(header) != ChunkChecksum(rest.substr(6, size + 1))) {
      return Damaged(place, "the checksum of a chunk is wrong");
    }
    if (type < static_cast<uint8_t>(ChunkType::kFull) ||
        type > static_cast<uint8_t>(ChunkType::kLast)) {
      return Damaged(place, absl::StrCat("the chunk type ", type, " is unknown"));
    }
    const auto kind = static_cast<ChunkType>(type);
    const bool begins = kind == ChunkType::kFull || kind == ChunkType::kFirst;
    if (begins == begun) {
      return Damaged(place, begun ? "a record has no end" : "a record has no start");
    }
    begun = true;
    absl::StrAppend(&record, rest.substr(kChunkHeaderBytes, size));
    place += kChunkHeaderBytes + size;
    if (kind == ChunkType::kFull || kind == ChunkType::kLast) {
      offset_ = place;
      return record;
    }
  }
}

// The bytes from `offset` to the end of its block, as far as the file has them.
absl::StatusOr<absl::string_view> LogReader::At(uint64_t offset) {
  const uint64_t start = offset - offset % kBlockBytes;
  // The last block of the file may have grown.
  if (start != block_start_ || block_.size() < kBlockBytes) {
    block_start_ = start;
    RETURN_IF_ERROR(ReadInto(fd_.get(), path_, start, block_));
  }
  return absl::string_view(block_).substr(std::min<size_t>(offset - start, block_.size()));
}

absl::Status LogReader::Damaged(uint64_t place, absl::string_view what) const {
  return absl::DataLossError(absl::StrCat("read ", path_, ", byte ", place, ": ", what));
}

absl::Status LogReader::Torn(uint64_t place, absl::string_view what) {
  torn_ = true;
  return Damaged(place, what);
}

}  // namespace ranklog::wandb_log
