// Reads the spool of a dead rank. Input: the bytes of a SpoolHeader, one byte for the size of the
// Hello, the Hello, and the ring's data. The file has the minimum size, whatever its header claims.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "ranklog/v1/ranklog.pb.h"
#include "service/ingest/ring/convert.h"
#include "service/ingest/ring/ring_file.h"
#include "service/ingest/ring/spool_reader.h"
#include "service/storage/rows/batch_codec.h"
#include "tests/fuzz/fuzz.h"

namespace ranklog::fuzz {
namespace {

using ingest::RingFile;
using ingest::SpoolReader;

constexpr size_t kFileBytes = v1::kSpoolDataOffset + v1::kMinRingBytes;

// Writes the input as a file, with zeros where the input is too short.
void Fill(int fd, absl::string_view input) {
  MUST(ftruncate(fd, 0) == 0 && ftruncate(fd, kFileBytes) == 0);
  const auto put = [&](size_t size, size_t offset) {
    size = std::min(size, input.size());
    MUST(pwrite(fd, input.data(), size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size));
    input.remove_prefix(size);
  };
  put(sizeof(v1::SpoolHeader), 0);
  size_t hello = 0;
  if (!input.empty()) {
    hello = static_cast<uint8_t>(input[0]);
    input.remove_prefix(1);
  }
  put(hello, v1::kSpoolHeaderBytes);
  put(v1::kMinRingBytes, v1::kSpoolDataOffset);
}

struct Content {
  uint64_t first = 0;
  uint64_t last = 0;
  size_t shapes = 0;
  size_t items = 0;
};

void Look(const SpoolReader::Part& part) {
  for (const SpoolReader::Part::Shape& shape : part.shapes) {
    MUST(shape.id != 0);
    for (const std::string& key : shape.keys) MUST(!key.empty() && key.size() <= 1024);
  }
  for (const model::Item& item : part.items) MUST(item.seq != 0 && item.count == 1);
  if (!part.has_rows()) return;
  MUST(model::Validate(part.batch).ok());
  std::string blob, again;
  storage::EncodeBatch(part.batch, blob);
  const absl::StatusOr<model::Batch> decoded = storage::DecodeBatch(blob);
  MUST(decoded.ok());
  storage::EncodeBatch(*decoded, again);
  MUST(blob == again);
}

Content Read(int fd, size_t part_bytes) {
  Content content;
  absl::StatusOr<SpoolReader> ring = SpoolReader::Open(fd);
  if (!ring.ok()) return content;
  const uint64_t first = ring->FirstSeq(/*lives=*/false);
  while (true) {
    const absl::StatusOr<SpoolReader::Part> part = ring->Next(part_bytes);
    if (!part.ok() || part->empty()) break;
    Look(*part);
    content.shapes += part->shapes.size();
    content.items += part->items.size();
    if (!part->has_rows()) continue;
    if (content.first == 0) {
      content.first = part->batch.first;
      MUST(first == content.first || first == 1);
    } else {
      MUST(part->batch.first == content.last + 1);
    }
    content.last = part->batch.last;
    MUST(content.last <= ring->rows());
  }
  return content;
}

}  // namespace
}  // namespace ranklog::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ranklog;
  static const int memory = memfd_create("ring", MFD_CLOEXEC);
  fuzz::Fill(memory, fuzz::Text(data, size));
  const ingest::Peer peer{.pid = 0, .uid = geteuid(), .pidfd = {}};
  const auto file =
      ingest::RingFile::FromDescriptor(UniqueFd(fcntl(memory, F_DUPFD_CLOEXEC, 0)), peer);
  MUST(file.ok());
  MUST(!(*file)->locked());
  if (const auto ring = ingest::SpoolReader::Open((*file)->fd()); ring.ok()) {
    v1::Hello hello;
    if (hello.ParseFromString(ring->hello())) {
      if (const auto session = ingest::ToSession(hello); session.ok()) {
        MUST(model::Validate(*session).ok());
      }
    }
  }
  // The content does not depend on the size of the parts in which it is read.
  const fuzz::Content whole = fuzz::Read((*file)->fd(), size_t{1} << 20);
  const fuzz::Content pieces = fuzz::Read((*file)->fd(), 64);
  MUST(whole.first == pieces.first && whole.last == pieces.last);
  MUST(whole.shapes == pieces.shapes && whole.items == pieces.items);
  return 0;
}
