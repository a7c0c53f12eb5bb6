#include "service/storage/rows/batch_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "service/base/status_macros.h"
#include "service/storage/rows/crc32c.h"

namespace ranklog::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "the blobs are little-endian");

constexpr uint8_t kFormat = 1;
constexpr uint8_t kCommits = 1;
constexpr uint8_t kCounted = 2;
constexpr uint8_t kTyped = 4;  // each text has a byte that tells whether it is JSON
constexpr uint8_t kHasSource = 8;
constexpr size_t kChecksumBytes = 4;
constexpr size_t kMaxVarintBytes = 10;

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1)); }

// Writes into memory that is large enough already, so no write needs a bounds check.
class Writer {
 public:
  explicit Writer(char* to) : to_(to) {}

  void Byte(uint8_t value) { *to_++ = static_cast<char>(value); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void Bytes(const void* data, size_t size) {
    if (size == 0) return;
    std::memcpy(to_, data, size);
    to_ += size;
  }
  void Text(const std::string& text) {
    Varint(text.size());
    Bytes(text.data(), text.size());
  }
  char* position() const { return to_; }

 private:
  char* to_;
};

// Reads bytes that may be damaged. After the first error, all reads return zero, and ok() is false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  uint8_t Byte() { return at_ == end_ ? Fail() : static_cast<uint8_t>(*at_++); }
  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = Byte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    return Fail();
  }
  // A count of items that take at least `bytes_each` bytes. Fails if the remaining bytes cannot
  // hold them.
  size_t Count(size_t bytes_each) {
    const uint64_t count = Varint();
    return count > remaining() / bytes_each ? Fail() : static_cast<size_t>(count);
  }
  uint32_t Unsigned32() {
    const uint64_t value = Varint();
    return value > std::numeric_limits<uint32_t>::max() ? Fail() : static_cast<uint32_t>(value);
  }
  void Bytes(void* to, size_t size) {
    if (size > remaining()) {
      Fail();
    } else if (size != 0) {
      std::memcpy(to, at_, size);
      at_ += size;
    }
  }
  std::string Text() {
    std::string text(Count(1), '\0');
    Bytes(text.data(), text.size());
    return text;
  }

  uint8_t Fail() {
    ok_ = false;
    at_ = end_;
    return 0;
  }

  size_t remaining() const { return static_cast<size_t>(end_ - at_); }
  bool ok() const { return ok_; }
  bool done() const { return ok_ && at_ == end_; }

 private:
  const char* at_;
  const char* const end_;
  bool ok_ = true;
};

absl::Status Damaged(const char* what) {
  return absl::DataLossError(std::string("a damaged ") + what + " in the store");
}

size_t MaxBytes(const model::Block& block) {
  size_t bytes = 7 * kMaxVarintBytes + block.rows() * 3 * kMaxVarintBytes +
                 block.values.size() * sizeof(double);
  for (const model::Text& text : block.texts) {
    bytes += 1 + 3 * kMaxVarintBytes + text.key.size() + text.value.size();
  }
  return bytes;
}

template <typename T>
void WriteDifferences(const std::vector<T>& values, Writer& out) {
  uint64_t before = 0;
  for (const T value : values) {
    const uint64_t difference = static_cast<uint64_t>(value) - before;
    out.Varint(std::is_signed_v<T> ? ZigZag(static_cast<int64_t>(difference)) : difference);
    before = static_cast<uint64_t>(value);
  }
}

template <typename T>
void ReadDifferences(std::vector<T>& values, Reader& in) {
  uint64_t value = 0;
  for (T& each : values) {
    const uint64_t difference = in.Varint();
    value += std::is_signed_v<T> ? static_cast<uint64_t>(UnZigZag(difference)) : difference;
    each = static_cast<T>(value);
  }
}

// The values after those of the stream's rows.
void WriteAdded(const model::Block& block, Writer& out) {
  const size_t width = block.width();
  const size_t added = block.source.added;
  for (size_t row = 1; added != 0 && row <= block.rows(); ++row) {
    out.Bytes(block.values.data() + (row * width - added), added * sizeof(double));
  }
}

void WriteBlock(const model::Block& block, Writer& out) {
  const bool has_source = !block.source.seqs.empty();
  const bool typed = !has_source && std::any_of(block.texts.begin(), block.texts.end(),
                                                [](const model::Text& text) { return text.json; });
  out.Varint(block.shape);
  out.Byte(static_cast<uint8_t>((block.commits ? kCommits : 0) | (block.counted ? kCounted : 0) |
                                (typed ? kTyped : 0) | (has_source ? kHasSource : 0)));
  if (has_source) {
    out.Varint(block.source.rank);
    out.Varint(block.source.incarnation);
    out.Varint(block.rows());
    out.Varint(block.source.added);
    WriteDifferences(block.offsets, out);
    WriteDifferences(block.source.seqs, out);
    WriteAdded(block, out);
    return;
  }
  out.Varint(block.rows());
  out.Varint(block.width());
  out.Varint(block.texts.size());
  WriteDifferences(block.offsets, out);
  WriteDifferences(block.steps, out);
  WriteDifferences(block.times_us, out);
  out.Bytes(block.values.data(), block.values.size() * sizeof(double));
  for (const model::Text& text : block.texts) {
    out.Varint(text.row);
    if (typed) out.Byte(text.json ? 1 : 0);
    out.Text(text.key);
    out.Text(text.value);
  }
}

void ReadSource(model::Block& block, Reader& in) {
  model::Source& source = block.source;
  source.rank = in.Unsigned32();
  source.incarnation = in.Varint();
  const size_t rows = in.Count(2);  // an offset and a sequence number
  source.added = in.Unsigned32();
  if (rows == 0 || source.added > in.remaining() / sizeof(double) / rows) in.Fail();
  if (!in.ok()) return;
  block.offsets.resize(rows);
  source.seqs.resize(rows);
  block.values.resize(rows * source.added);
  ReadDifferences(block.offsets, in);
  ReadDifferences(source.seqs, in);
  in.Bytes(block.values.data(), block.values.size() * sizeof(double));
}

model::Block ReadBlock(Reader& in) {
  model::Block block;
  block.shape = in.Unsigned32();
  const uint8_t flags = in.Byte();
  block.commits = (flags & kCommits) != 0;
  block.counted = (flags & kCounted) != 0;
  if ((flags & kHasSource) != 0) {
    ReadSource(block, in);
    return block;
  }
  const size_t rows = in.Count(3);  // an offset, a step and a time
  const uint64_t width = in.Varint();
  const size_t texts = in.Count(3);  // a row and two lengths
  if (rows != 0 && width > in.remaining() / sizeof(double) / rows) in.Fail();
  if (!in.ok()) return block;
  block.offsets.resize(rows);
  block.steps.resize(rows);
  block.times_us.resize(rows);
  block.values.resize(rows * width);
  ReadDifferences(block.offsets, in);
  ReadDifferences(block.steps, in);
  ReadDifferences(block.times_us, in);
  in.Bytes(block.values.data(), block.values.size() * sizeof(double));
  for (size_t i = 0; i < texts && in.ok(); ++i) {
    model::Text text;
    text.row = in.Unsigned32();
    if ((flags & kTyped) != 0) text.json = in.Byte() != 0;
    text.key = in.Text();
    text.value = in.Text();
    block.texts.push_back(std::move(text));
  }
  return block;
}

void Seal(std::string& blob, absl::string_view owner) {
  const uint32_t checksum = Crc32c(blob) ^ Crc32c(owner);
  blob.append(reinterpret_cast<const char*>(&checksum), kChecksumBytes);
}

}  // namespace

void EncodeBatch(const model::Batch& batch, std::string& blob, absl::string_view owner) {
  size_t bytes = 1 + 3 * kMaxVarintBytes + kChecksumBytes;
  for (const model::Block& block : batch.blocks) bytes += MaxBytes(block);
  if (blob.size() < bytes) blob.resize(bytes);
  Writer out(blob.data());
  out.Byte(kFormat);
  out.Varint(batch.first);
  out.Varint(batch.last - batch.first);
  out.Varint(batch.blocks.size());
  for (const model::Block& block : batch.blocks) WriteBlock(block, out);
  blob.resize(static_cast<size_t>(out.position() - blob.data()));
  Seal(blob, owner);
}

absl::Status RefuseSource(model::Block&) { return Damaged("batch"); }

absl::StatusOr<model::Batch> DecodeBatch(absl::string_view blob, absl::string_view owner,
                                         CompleteBlock complete) {
  ASSIGN_OR_RETURN(const absl::string_view bytes, Unsealed(blob, owner));
  Reader in(bytes);
  if (in.Byte() != kFormat) return Damaged("batch");
  model::Batch batch;
  batch.first = in.Varint();
  batch.last = batch.first + in.Varint();
  const size_t blocks = in.Count(5);  // the five numbers that a block starts with
  for (size_t b = 0; b < blocks && in.ok(); ++b) batch.blocks.push_back(ReadBlock(in));
  if (!in.done()) return Damaged("batch");
  for (model::Block& block : batch.blocks) {
    if (block.source.seqs.empty()) continue;
    RETURN_IF_ERROR(complete(block));
    block.source = {};
  }
  if (!model::Validate(batch).ok()) return Damaged("batch");
  return batch;
}

std::string EncodeKeys(absl::Span<const std::string> keys, absl::string_view owner) {
  size_t bytes = kMaxVarintBytes;
  for (const std::string& key : keys) bytes += kMaxVarintBytes + key.size();
  std::string blob(bytes, '\0');
  Writer out(blob.data());
  out.Varint(keys.size());
  for (const std::string& key : keys) out.Text(key);
  blob.resize(static_cast<size_t>(out.position() - blob.data()));
  Seal(blob, owner);
  return blob;
}

absl::StatusOr<std::vector<std::string>> DecodeKeys(absl::string_view blob,
                                                    absl::string_view owner) {
  ASSIGN_OR_RETURN(const absl::string_view bytes, Unsealed(blob, owner));
  Reader in(bytes);
  std::vector<std::string> keys(in.Count(1));
  for (std::string& key : keys) key = in.Text();
  if (!in.done()) return Damaged("list of keys");
  return keys;
}

std::string Sealed(absl::string_view bytes) {
  std::string blob(bytes);
  Seal(blob, "");
  return blob;
}

absl::StatusOr<absl::string_view> Unsealed(absl::string_view blob, absl::string_view owner) {
  if (blob.size() < kChecksumBytes) return Damaged("blob");
  const absl::string_view bytes = blob.substr(0, blob.size() - kChecksumBytes);
  uint32_t checksum;
  std::memcpy(&checksum, blob.data() + bytes.size(), kChecksumBytes);
  const uint32_t found = Crc32c(bytes);
  if (found != checksum && (found ^ Crc32c(owner)) != checksum) return Damaged("blob");
  return bytes;
}

}  // namespace ranklog::storage
