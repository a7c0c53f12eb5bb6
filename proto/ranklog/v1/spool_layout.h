// The layout of a spool file, byte by byte as client/ring/spool/spool_format.md specifies it.
// Besides the protocol, this is the only format that the rank and the daemon share. The rank writes
// the file; the daemon reads it after the rank's death, and a forked child's ring earlier, too.

#ifndef RANKLOG_V1_SPOOL_LAYOUT_H_
#define RANKLOG_V1_SPOOL_LAYOUT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ranklog::v1 {

inline constexpr uint32_t kProtocolVersion = 2;

// The largest gRPC message in both directions. A row may fill half a ring (kMaxRingBytes / 2), and
// must fit in one message.
inline constexpr int kMaxMessageBytes = 64 << 20;

// The largest item that a rank may leave in a file. The daemon holds it several times while it reads
// it, and SQLite stores at most 10^9 bytes in a row.
inline constexpr uint64_t kMaxContentBytes = 256 << 20;

// The names of staged files, which wait for an upload, begin with this. The other files in the same
// directory hold large items.
inline constexpr char kStagedPrefix[] = "staged-";
inline bool IsStaged(std::string_view name) { return name.substr(0, 7) == kStagedPrefix; }

inline constexpr uint64_t kSpoolMagic = 0x31474c4b4e4152ULL;  // the bytes "RANKLG1\0"
inline constexpr uint32_t kSpoolVersion = 1;
inline constexpr size_t kSpoolHeaderBytes = 4096;
// Room for a serialized Hello without credentials.
inline constexpr size_t kSpoolHelloBytes = 64 << 10;
inline constexpr size_t kSpoolDataOffset = kSpoolHeaderBytes + kSpoolHelloBytes;
inline constexpr size_t kMinRingBytes = 64 << 10;
inline constexpr size_t kDefaultRingBytes = 8 << 20;  // minutes without a daemon at usual rates
inline constexpr size_t kMaxRingBytes = 64 << 20;
inline constexpr size_t kLaterRingBytes = 512 << 10;  // minimum for later rings of a process
inline constexpr size_t kRecordAlign = 8;

// Limits of one stream: each shape costs memory in every stage, and its keys travel in one message.
// The rank refuses a row that exceeds a limit, because the daemon would end the stream.
inline constexpr uint32_t kMaxShapes = 10'000;
inline constexpr size_t kMaxShapeKeys = 1'000'000;
inline constexpr size_t kMaxStreamKeyBytes = 64 << 20;  // all shapes' keys; each plus 4 bytes

// The first bytes of a descriptor-passing connection: this value, then the incarnation (8 bytes,
// little-endian), with the descriptor as SCM_RIGHTS. Then the size of a message (4 bytes), and the
// message: for a ring that is read live, a serialized Hello with the credentials. The first bytes of
// gRPC are "PRI ".
inline constexpr char kDescriptorMagic[8] = {'R', 'L', 'S', 'P', 'O', 'O', 'L', '1'};

// Converts a record's ticks to Unix time: unix_us = base_unix_us + (ticks - base_ticks) *
// us_per_tick. The writer fills the copy that is not current, and then makes it current with a
// release store. So a reader finds a complete copy, even after the writer's death.
struct ClockCalibration {
  std::atomic<uint64_t> base_ticks;
  std::atomic<int64_t> base_unix_us;
  std::atomic<double> us_per_tick;
};

// How far the daemon has stored a ring that it reads while the process lives (Ring.read_live). The
// daemon fills the copy that is not current, and then makes it current. So the process never sees
// half of a copy.
struct StoredMark {
  std::atomic<uint64_t> end;  // all records before this position
  std::atomic<uint64_t> rows;
  std::atomic<uint64_t> items;
};

enum FinishedBy : uint32_t {
  kNotFinished = 0,
  // By Finish(), or by an exit() that waits for delivery. `exit_code` is set.
  kFinishedByCall = 1,
  // By the destructor or exit(). The exit code of the process takes precedence if it is known.
  kFinishedByDestructor = 2,
};

// The first page of the file. All integers have the byte order of the machine that wrote them,
// because a spool never leaves its node. Fields of different writers are on different cache lines.
struct SpoolHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t header_bytes;  // kSpoolHeaderBytes
  uint64_t data_offset;   // kSpoolDataOffset
  uint64_t data_bytes;    // capacity of the ring, a multiple of the page size
  uint64_t incarnation;
  std::atomic<uint32_t> hello_bytes;  // of the Hello at kSpoolHeaderBytes; 0: none yet
  uint32_t reserved0;

  // Written by the thread that logs.
  // Bytes ever written; stored with release after the record.
  alignas(64) std::atomic<uint64_t> head;
  std::atomic<uint64_t> rows;  // rows ever written (seq of the last); stored before head
  std::atomic<uint64_t> lost_ring_full;
  std::atomic<uint64_t> lost_invalid;
  std::atomic<uint64_t> lost_step_behind;
  std::atomic<uint64_t> lost_too_large;
  std::atomic<uint64_t> lost_after_finish;
  std::atomic<uint64_t> items;  // items ever written (seq of the last); stored before head

  // Written by the sender.
  alignas(64) std::atomic<uint64_t> tail;  // bytes freed; always at the start of a record
  std::atomic<uint32_t> calibration;       // which of the two below is current
  uint32_t reserved1;
  ClockCalibration calibrations[2];

  // Written by Finish().
  alignas(64) std::atomic<uint32_t> finished;  // a FinishedBy
  std::atomic<int32_t> exit_code;

  // Written by the threads that call Config(), Summary() and DefineMetric().
  std::atomic<uint64_t> lost_items;  // refused

  // Written by the thread that logs, seldom.
  std::atomic<uint64_t> lost_values;  // left out of rows that were written

  // Written by the sender of a ring that the daemon reads live: later rows have at least this step.
  std::atomic<int64_t> least_step;

  // Written by the daemon that reads the ring live.
  alignas(64) std::atomic<uint32_t> stored;  // which of the two below is current
  uint32_t reserved2;
  StoredMark stored_marks[2];
};
static_assert(sizeof(SpoolHeader) <= kSpoolHeaderBytes);
static_assert(std::atomic<uint64_t>::is_always_lock_free &&
              std::atomic<double>::is_always_lock_free);

enum class RecordKind : uint16_t {
  kPad = 0,    // skip `bytes`; fills the end of the ring
  kShape = 1,  // ShapeRecord
  kRow = 2,    // RowRecord
  kItem = 3,   // ItemRecord
};

enum RowFlags : uint16_t {
  kRowCommits = 1,  // the row was logged without a step
  // And no row of the process had given a step, so its step is a count of rows from 0.
  kRowCounted = 2,
};

// The start of every record. A record begins at a multiple of 8 and never wraps.
struct RecordHeader {
  uint32_t bytes;  // including this header and padding; a multiple of 8
  RecordKind kind;
  uint16_t flags;
};

// Followed by value_count doubles, then text_bytes bytes: per text a TextHeader, the key, the value.
struct RowRecord {
  RecordHeader header;
  uint32_t shape;  // 0: no numbers
  uint32_t value_count;
  uint64_t seq;  // 1 for the first row of the ring, no gaps
  int64_t step;
  uint64_t ticks;
  uint32_t text_bytes;  // unpadded
  uint32_t text_count;
};
static_assert(sizeof(RowRecord) == 48);

// A value of a row that is not a double.
struct TextHeader {
  uint16_t key_bytes;
  uint16_t json;  // 1: the value is JSON text (proto/README.md); 0: it is a string
  uint32_t value_bytes;

  size_t bytes() const { return sizeof *this + key_bytes + value_bytes; }
};
static_assert(sizeof(TextHeader) == 8);

// Followed by key_count entries: u32 length, bytes. Padded only at the end.
struct ShapeRecord {
  RecordHeader header;
  uint32_t shape;  // counts from 1
  uint32_t key_count;
  uint32_t key_bytes;  // of all entries, unpadded
  uint32_t reserved;
};
static_assert(sizeof(ShapeRecord) == 24);

// Followed by a serialized ranklog.v1.Item without the fields that are here.
struct ItemRecord {
  RecordHeader header;
  uint32_t content_bytes;  // unpadded
  uint32_t reserved;
  uint64_t seq;        // 1 for the first item of the ring, no gaps
  uint64_t after_row;  // the ring's last row before it
  uint64_t ticks;
};
static_assert(sizeof(ItemRecord) == 40);

}  // namespace ranklog::v1

#endif  // RANKLOG_V1_SPOOL_LAYOUT_H_
