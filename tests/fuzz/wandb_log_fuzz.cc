// Reads a `.wandb` log. Input: the bytes of the file. A byte 0xff in the first place stands for a
// correct file header and is followed by chunks, whose checksums the target corrects.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "service/wandb_log/format.h"
#include "service/wandb_log/log_file.h"
#include "tests/fuzz/fuzz.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::fuzz {
namespace {

using wandb_log::LogReader;
using wandb_log::LogWriter;

// Gives each chunk within its block the right checksum.
std::string WithChecksums(absl::string_view chunks) {
  std::string file(wandb_log::kFileHeader);
  file.append(chunks.data(), chunks.size());
  for (uint64_t place = wandb_log::kFileHeaderBytes; place + 7 <= file.size();) {
    const uint64_t left = wandb_log::kBlockBytes - place % wandb_log::kBlockBytes;
    const uint64_t size = static_cast<uint8_t>(file[place + 4]) |
                          static_cast<uint64_t>(static_cast<uint8_t>(file[place + 5])) << 8;
    if (left < 7 || size + 7 > left || place + 7 + size > file.size()) break;
    const uint32_t crc =
        wandb_log::ChunkChecksum(absl::string_view(file).substr(place + 6, size + 1));
    for (int byte = 0; byte < 4; ++byte) file[place + byte] = static_cast<char>(crc >> (8 * byte));
    place += 7 + size;
  }
  return file;
}

std::vector<std::string> Read(const std::string& path, uint64_t* offset, bool* whole) {
  std::vector<std::string> records;
  const auto reader = LogReader::Open(path);
  *offset = 0;
  *whole = false;
  if (!reader.ok()) return records;
  while (true) {
    const auto record = (*reader)->Next();
    *offset = (*reader)->offset();
    *whole = record.ok();
    MUST(record.ok() || record.status().code() == absl::StatusCode::kDataLoss);
    MUST(!record.ok() || !(*reader)->torn());
    if (!record.ok() || !record->has_value()) return records;
    records.push_back(**record);
  }
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  static const int memory = memfd_create("log", MFD_CLOEXEC);
  static const std::string path = absl::StrCat("/proc/self/fd/", memory);
  std::string file(fuzz::Text(data, size));
  if (size > 0 && data[0] == 0xff) file = fuzz::WithChecksums(absl::string_view(file).substr(1));
  MUST(ftruncate(memory, 0) == 0);
  MUST(pwrite(memory, file.data(), file.size(), 0) == static_cast<ssize_t>(file.size()));

  uint64_t end = 0;
  bool whole = false;
  std::vector<std::string> records = fuzz::Read(path, &end, &whole);
  MUST(end <= std::max<size_t>(file.size(), wandb_log::kFileHeaderBytes));
  for (const std::string& record : records) {
    wandb_internal::Record message;
    if (message.ParseFromString(record)) message.SerializeAsString();
  }
  // A writer continues behind the last whole record, whatever follows there.
  const auto writer = wandb_log::LogWriter::Continue(path, end);
  MUST(writer.ok());
  records.emplace_back(40000, 'x');
  MUST((*writer)->Append(records.back()).ok() && (*writer)->Flush(/*sync=*/false).ok());
  uint64_t longer = 0;
  MUST(fuzz::Read(path, &longer, &whole) == records);
  MUST(whole && longer == (*writer)->end());
  return 0;
}
