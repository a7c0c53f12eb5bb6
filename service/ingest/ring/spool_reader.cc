#include "service/ingest/ring/spool_reader.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/utf8.h"
#include "service/ingest/ring/convert.h"
#include "service/model/json_text.h"

namespace ranklog::ingest {
namespace {

constexpr size_t kWindow = 256 << 10;
// Same as the client's limit; the trackers refuse longer keys.
constexpr size_t kMaxKeyBytes = 1024;
constexpr double kMaxUnixUs = 4e18;  // fits in an int64_t, with margin
constexpr size_t kMaxHeaderRead = sizeof(v1::SpoolHeader);

// Reads values from a record. Take() returns false if too few bytes are left.
class Cursor {
 public:
  explicit Cursor(absl::Span<const char> bytes) : bytes_(bytes) {}
  template <typename T>
  bool Take(T* value) {
    if (bytes_.size() < sizeof(T)) return false;
    memcpy(value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return true;
  }
  bool Take(size_t size, std::string* text) {
    if (bytes_.size() < size) return false;
    text->assign(bytes_.data(), size);
    bytes_.remove_prefix(size);
    return true;
  }
  const char* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  absl::Span<const char> bytes_;
};

// Not ErrnoToStatus(): some of its codes have another meaning here.
absl::Status ReadError(const char* call) {
  return absl::InternalError(absl::StrCat("cannot ", call, " a spool: ", strerror(errno)));
}

bool IsKey(const std::string& key) {
  return !key.empty() && key.size() <= kMaxKeyBytes && IsUtf8(key);
}

// The block of the batch for rows of this shape and kind; added if it is missing.
model::Block& BlockFor(uint32_t shape, uint16_t flags, size_t width, model::Batch* batch) {
  const bool commits = (flags & v1::kRowCommits) != 0;
  const bool counted = (flags & v1::kRowCounted) != 0;
  for (model::Block& block : batch->blocks) {
    if (block.shape == shape && block.commits == commits && block.counted == counted &&
        block.width() == width) {
      return block;
    }
  }
  model::Block& block = batch->blocks.emplace_back();
  block.shape = shape;
  block.commits = commits;
  block.counted = counted;
  return block;
}

}  // namespace

absl::Status SpoolReader::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat("the spool is damaged at byte ", position_, ": ", what));
}

absl::StatusOr<SpoolReader> SpoolReader::Open(int fd) {
  SpoolReader reader(fd);
  RETURN_IF_ERROR(reader.ReadHeader());
  return reader;
}

// The step comes first: rows that were written before it was published are then before the head.
absl::Status SpoolReader::Refresh() {
  const uint64_t position = position_;
  const uint64_t incarnation = incarnation_;
  int64_t least_step = 0;
  RETURN_IF_ERROR(
      ReadExactly(offsetof(v1::SpoolHeader, least_step), &least_step, sizeof(least_step)));
  RETURN_IF_ERROR(ReadHeader());
  if (incarnation_ != incarnation || position > head_) {
    return absl::DataLossError("the spool's header does not continue what it was");
  }
  if (position_ <= position) {
    position_ = position;
  } else {  // the process has freed what an earlier daemon stored
    last_seq_ = last_item_ = 0;
  }
  least_step_ = least_step;
  std::vector<char>().swap(window_);  // a live ring holds no memory while it is idle
  return absl::OkStatus();
}

absl::Status SpoolReader::ReadExactly(uint64_t offset, void* into, size_t size) const {
  size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(fd_, static_cast<char*>(into) + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ReadError("read");
    if (got == 0) return absl::DataLossError("the spool is shorter than it was");
    done += static_cast<size_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SpoolReader::ReadHeader() {
  alignas(v1::SpoolHeader) char bytes[kMaxHeaderRead];
  RETURN_IF_ERROR(ReadExactly(0, bytes, sizeof(bytes)));
  const auto& header = *reinterpret_cast<const v1::SpoolHeader*>(bytes);
  const uint32_t hello_bytes = header.hello_bytes.load();
  // Checked first, because another layout may have its Hello elsewhere. The client writes the magic
  // last, except for the Hello.
  if (header.magic == v1::kSpoolMagic && header.version > v1::kSpoolVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("its layout is version ", header.version, ", and ranklogd ", RANKLOG_VERSION,
                     " reads version ", v1::kSpoolVersion,
                     "; run the ranklogd that came with the rank's library"));
  }
  if (header.magic != v1::kSpoolMagic && header.magic != 0)
    return absl::DataLossError("not a spool file");
  if (hello_bytes == 0) return absl::UnavailableError("the spool has no Hello yet");
  if (header.magic == 0) return absl::DataLossError("not a spool file");
  struct stat info {};
  if (fstat(fd_, &info) != 0) return ReadError("stat");
  if (header.version != v1::kSpoolVersion || header.header_bytes != v1::kSpoolHeaderBytes ||
      header.data_offset != v1::kSpoolDataOffset || hello_bytes > v1::kSpoolHelloBytes ||
      header.data_bytes < v1::kMinRingBytes || header.data_bytes > v1::kMaxRingBytes ||
      header.data_bytes % v1::kRecordAlign != 0 ||
      static_cast<uint64_t>(info.st_size) < v1::kSpoolDataOffset + header.data_bytes) {
    return absl::DataLossError("the spool's sizes contradict each other");
  }
  incarnation_ = header.incarnation;
  data_bytes_ = header.data_bytes;
  head_ = header.head.load();
  position_ = header.tail.load();
  if (position_ > head_ || head_ - position_ > data_bytes_ || head_ % v1::kRecordAlign != 0 ||
      position_ % v1::kRecordAlign != 0) {
    return absl::DataLossError("the spool's head and tail contradict each other");
  }
  rows_ = header.rows.load();
  losses_ = ToLosses(header);
  finished_ = header.finished.load();
  exit_code_ = header.exit_code.load();
  const v1::ClockCalibration& clock = header.calibrations[header.calibration.load() & 1];
  base_ticks_ = clock.base_ticks.load();
  base_unix_us_ = clock.base_unix_us.load();
  us_per_tick_ = clock.us_per_tick.load();
  if (!hello_.empty()) return absl::OkStatus();
  hello_.resize(hello_bytes);
  return ReadExactly(v1::kSpoolHeaderBytes, hello_.data(), hello_.size());
}

int64_t SpoolReader::UnixTime(uint64_t ticks) const {
  const double since = static_cast<double>(static_cast<int64_t>(ticks - base_ticks_));
  const double unix_us = static_cast<double>(base_unix_us_) + since * us_per_tick_;
  if (!std::isfinite(unix_us)) return 0;
  // For small distances, integer arithmetic keeps the base exact.
  if (std::abs(since * us_per_tick_) < 1e15 && std::abs(unix_us) < kMaxUnixUs) {
    return base_unix_us_ + static_cast<int64_t>(since * us_per_tick_);
  }
  return static_cast<int64_t>(std::clamp(unix_us, -kMaxUnixUs, kMaxUnixUs));
}

absl::StatusOr<absl::Span<const char>> SpoolReader::Record() {
  const uint64_t offset = position_ % data_bytes_;
  const uint64_t room = std::min(head_ - position_, data_bytes_ - offset);
  // `room` is at least a record header: positions, head and the ring's size are all multiples of 8.
  auto in_window = [&](uint64_t size) {
    return position_ >= window_start_ && position_ + size <= window_start_ + window_.size();
  };
  auto fill = [&](uint64_t size) {
    window_.resize(std::min<uint64_t>(room, std::max<uint64_t>(size, kWindow)));
    window_start_ = position_;
    return ReadExactly(v1::kSpoolDataOffset + offset, window_.data(), window_.size());
  };
  if (!in_window(sizeof(v1::RecordHeader))) RETURN_IF_ERROR(fill(sizeof(v1::RecordHeader)));
  v1::RecordHeader header;
  memcpy(&header, window_.data() + (position_ - window_start_), sizeof(header));
  if (header.bytes < sizeof(header) || header.bytes % v1::kRecordAlign != 0 ||
      header.bytes > room) {
    return Damaged(absl::StrCat("a record of ", header.bytes, " bytes where ", room, " are left"));
  }
  if (!in_window(header.bytes)) RETURN_IF_ERROR(fill(header.bytes));
  return absl::MakeConstSpan(window_.data() + (position_ - window_start_), header.bytes);
}

absl::StatusOr<SpoolReader::Part> SpoolReader::Next(size_t max_bytes, const ContentDir* content) {
  Part part;
  const uint64_t start = position_;
  while (position_ < head_ && (position_ - start < max_bytes || part.empty())) {
    absl::StatusOr<absl::Span<const char>> record = Record();
    absl::Status status = record.status();
    if (status.ok()) {
      v1::RecordHeader header;
      memcpy(&header, record->data(), sizeof(header));
      switch (header.kind) {
        case v1::RecordKind::kPad:
          break;
        case v1::RecordKind::kShape:
          status = AddShape(*record, &part);
          break;
        case v1::RecordKind::kRow:
          status = AddRow(*record, &part);
          break;
        case v1::RecordKind::kItem:
          status = AddItem(*record, content, &part);
          break;
        default:
          status = Damaged(absl::StrCat("a record of kind ", static_cast<int>(header.kind)));
      }
    }
    if (!status.ok()) {
      // Earlier records are good: return them first, and the error at the next call.
      if (part.empty()) return status;
      return part;
    }
    position_ += record->size();
  }
  return part;
}

uint64_t SpoolReader::FirstSeq(bool lives) const {
  SpoolReader ahead = *this;
  while (true) {
    const absl::StatusOr<Part> part = ahead.Next(1, nullptr);
    if (!part.ok()) return 1;
    if (part->has_rows()) return part->batch.first;
    if (part->empty()) return lives ? std::max<uint64_t>(rows_, 1) : rows_ + 1;
  }
}

absl::Status SpoolReader::AddShape(absl::Span<const char> record, Part* part) {
  v1::ShapeRecord fixed;
  Cursor cursor(record);
  if (!cursor.Take(&fixed) || fixed.key_bytes > cursor.size() || fixed.shape == 0 ||
      fixed.key_count > fixed.key_bytes / sizeof(uint32_t)) {
    return Damaged("a shape that does not fit its record");
  }
  Part::Shape shape{.id = fixed.shape, .keys = {}};
  shape.keys.resize(fixed.key_count);
  for (std::string& key : shape.keys) {
    uint32_t size = 0;
    if (!cursor.Take(&size) || !cursor.Take(size, &key) || !IsKey(key)) {
      return Damaged("invalid key");
    }
  }
  RETURN_IF_ERROR(bounds_.Add(shape.id, shape.keys));
  part->shapes.push_back(std::move(shape));
  return absl::OkStatus();
}

absl::Status SpoolReader::AddRow(absl::Span<const char> record, Part* part) {
  v1::RowRecord row;
  Cursor cursor(record);
  if (!cursor.Take(&row) || row.value_count > cursor.size() / sizeof(double) ||
      row.text_bytes > cursor.size() - row.value_count * sizeof(double) ||
      row.text_count > row.text_bytes / sizeof(v1::TextHeader) ||
      (row.shape == 0) != (row.value_count == 0)) {
    return Damaged("a row that does not fit its record");
  }
  if (row.seq == 0 || row.seq > rows_ || (last_seq_ != 0 && row.seq != last_seq_ + 1)) {
    return Damaged(absl::StrCat("row ", row.seq, " after row ", last_seq_, " of ", rows_));
  }
  if (last_seq_ != 0 && row.step < last_step_) {
    return Damaged(absl::StrCat("step ", row.step, " after step ", last_step_));
  }
  const char* values = cursor.data();
  Cursor texts(absl::MakeConstSpan(values + row.value_count * sizeof(double), row.text_bytes));
  std::vector<model::Text> parsed(row.text_count);
  for (model::Text& text : parsed) {
    v1::TextHeader header;
    if (!texts.Take(&header) || !texts.Take(header.key_bytes, &text.key) ||
        !texts.Take(header.value_bytes, &text.value) || !IsKey(text.key) || !IsUtf8(text.value)) {
      return Damaged("invalid text");
    }
    text.json = header.json != 0;
    if (text.json && model::ParseJsonText(text.value).is_discarded()) {
      return Damaged("a value that is not JSON");
    }
  }

  model::Batch& batch = part->batch;
  if (batch.blocks.empty()) batch.first = row.seq;
  batch.last = row.seq;
  last_seq_ = row.seq;
  last_step_ = row.step;
  model::Block& block = BlockFor(row.shape, row.header.flags, row.value_count, &batch);
  for (model::Text& text : parsed) {
    text.row = static_cast<uint32_t>(block.rows());
    block.texts.push_back(std::move(text));
  }
  block.offsets.push_back(static_cast<uint32_t>(row.seq - batch.first));
  block.steps.push_back(row.step);
  block.times_us.push_back(UnixTime(row.ticks));
  const size_t held = block.values.size();
  block.values.resize(held + row.value_count);
  if (row.value_count > 0) {
    memcpy(block.values.data() + held, values, row.value_count * sizeof(double));
  }
  return absl::OkStatus();
}

absl::Status SpoolReader::AddItem(absl::Span<const char> record, const ContentDir* content,
                                  Part* part) {
  v1::ItemRecord fixed;
  Cursor cursor(record);
  if (!cursor.Take(&fixed) || fixed.content_bytes > cursor.size()) {
    return Damaged("an item that does not fit its record");
  }
  if (fixed.seq == 0 || (last_item_ != 0 && fixed.seq != last_item_ + 1)) {
    return Damaged(absl::StrCat("item ", fixed.seq, " after item ", last_item_));
  }
  last_item_ = fixed.seq;
  v1::Item item;
  // If that fails, the item has no content, and is dropped as such.
  item.ParseFromArray(cursor.data(), static_cast<int>(fixed.content_bytes));
  item.set_seq(fixed.seq);
  item.set_after_row(fixed.after_row);
  item.set_time_us(UnixTime(fixed.ticks));
  std::vector<v1::Item> items = {std::move(item)};
  for (std::string& file : ReadContent(content, &items)) part->files.push_back(std::move(file));
  part->items.push_back(ToItemOrUnreadable(items.front()));
  return absl::OkStatus();
}

}  // namespace ranklog::ingest
