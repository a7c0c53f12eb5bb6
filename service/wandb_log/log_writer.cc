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

absl::Status WriterError(int error, absl::string_view action, absl::string_view path) {
  const absl::Status status = absl::ErrnoToStatus(error, absl::StrCat(action, " ", path));
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return absl::ResourceExhaustedError(status.message());
    case EEXIST:
    case ENOENT:
      return status;
    default:
      return absl::UnavailableError(status.message());
  }
}

void AppendChunk(ChunkType type, absl::string_view payload, std::string& out) {
  const size_t start = out.size();
  out.append(4, '\0');
  out.push_back(static_cast<char>(payload.size() & 0xff));
  out.push_back(static_cast<char>(payload.size() >> 8));
  out.push_back(static_cast<char>(type));
  absl::StrAppend(&out, payload);
  const uint32_t crc = ChunkChecksum(absl::string_view(out).substr(start + 6));
  for (int byte = 0; byte < 4; ++byte) out[start + byte] = static_cast<char>(crc >> (8 * byte));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Create(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!fd.valid()) return WriterError(errno, "create", path);
  std::unique_ptr<LogWriter> writer(new LogWriter(path, std::move(fd), 0));
  writer->buffer_ = std::string(kFileHeader);
  RETURN_IF_ERROR(writer->Write());
  return writer;
}

absl::StatusOr<std::unique_ptr<LogWriter>> LogWriter::Continue(const std::string& path,
                                                               uint64_t end) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return WriterError(errno, "open", path);
  if (end < kFileHeaderBytes) end = 0;
  if (ftruncate(fd.get(), static_cast<off_t>(end)) != 0) return WriterError(errno, "cut", path);
  std::unique_ptr<LogWriter> writer(new LogWriter(path, std::move(fd), end));
  if (end == 0) {
    writer->buffer_ = std::string(kFileHeader);
    RETURN_IF_ERROR(writer->Write());
  }
  return writer;
}

absl::Status LogWriter::Append(absl::string_view record) {
  for (bool first = true;; first = false) {
    uint64_t left = kBlockBytes - end() % kBlockBytes;
    if (left < kChunkHeaderBytes) {
      buffer_.append(left, '\0');
      left = kBlockBytes;
    }
    const absl::string_view payload = record.substr(0, left - kChunkHeaderBytes);
    record.remove_prefix(payload.size());
    const bool last = record.empty();
    AppendChunk(first ? (last ? ChunkType::kFull : ChunkType::kFirst)
                      : (last ? ChunkType::kLast : ChunkType::kMiddle),
                payload, buffer_);
    if (last) break;
  }
  return buffer_.size() < kBlockBytes ? absl::OkStatus() : Write();
}

absl::Status LogWriter::Flush(bool sync) {
  RETURN_IF_ERROR(Write());
  if (sync && fdatasync(fd_.get()) != 0) return WriterError(errno, "fsync", path_);
  return absl::OkStatus();
}

absl::Status LogWriter::Write() {
  absl::string_view rest = buffer_;
  while (!rest.empty()) {
    const ssize_t bytes =
        pwrite(fd_.get(), rest.data(), rest.size(), static_cast<off_t>(end() - rest.size()));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return WriterError(errno, "write to", path_);
    rest.remove_prefix(static_cast<size_t>(bytes));
  }
  written_ += buffer_.size();
  buffer_.clear();
  return absl::OkStatus();
}

}  // namespace ranklog::wandb_log
