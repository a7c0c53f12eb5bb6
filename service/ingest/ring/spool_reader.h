// Reads the spool of a dead rank, or of a live forked child. Trusts no byte of it: the file may be
// damaged or malicious.

#ifndef SERVICE_INGEST_RING_SPOOL_READER_H_
#define SERVICE_INGEST_RING_SPOOL_READER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ranklog/v1/spool_layout.h"
#include "service/ingest/ring/content_dir.h"
#include "service/ingest/ring/shape_bounds.h"
#include "service/model/batch.h"
#include "service/model/session.h"

namespace ranklog::ingest {

// Reads only with pread, from a descriptor that the caller keeps open. Never reads beyond the
// published end (`head`), so a record that the rank was writing when it died is not read. Not
// thread-safe.
class SpoolReader {
 public:
  // A part of the ring, in ring order. Shapes come before the rows that may refer to them.
  struct Part {
    struct Shape {
      uint32_t id = 0;
      std::vector<std::string> keys;
    };
    std::vector<Shape> shapes;
    model::Batch batch;              // passes Validate(); no blocks: no rows
    std::vector<model::Item> items;  // each with the rows before it in `batch` or an earlier part
    std::vector<std::string> files;  // of large items, to be removed once these are in the store

    bool has_rows() const { return !batch.blocks.empty(); }
    bool empty() const { return shapes.empty() && items.empty() && !has_rows(); }
  };

  // Reads the header of the ring behind `fd`.
  //   kUnavailable         its rank has not written its Hello yet
  //   kDataLoss            not a spool, or its header contradicts itself or the file
  //   kFailedPrecondition  written by a newer version
  //   kInternal            the read failed
  static absl::StatusOr<SpoolReader> Open(int fd);

  // Reads the header again, while the process lives. The next part may then hold new records.
  //   as Open(); afterwards the reader must not be used
  absl::Status Refresh();

  uint64_t incarnation() const { return incarnation_; }
  const std::string& hello() const { return hello_; }  // serialized ranklog.v1.Hello
  uint64_t rows() const { return rows_; }              // ever written: the seq of the last row
  // Call it before Next(). The first row that the ring still holds. If it holds none: the next one, or
  // in a ring whose process lives at most that, because the process may have counted a row and not
  // published it yet. 1 if its first records are damaged.
  uint64_t FirstSeq(bool lives) const;
  const model::Losses& losses() const { return losses_; }
  // Later rows of a live ring have at least this step.
  int64_t least_step() const { return least_step_; }
  // How far Next() has read: the position after the last record, and the last row and item (0: none).
  uint64_t position() const { return position_; }
  uint64_t last_seq() const { return last_seq_; }
  uint64_t last_item() const { return last_item_; }
  uint64_t unread() const { return head_ - position_; }  // bytes
  // The run has finished in its process, with exit_code().
  bool finished() const { return finished_ != v1::kNotFinished; }
  // The same, but by the Run's destructor or exit(): the end of the process takes precedence.
  bool destroyed() const { return finished_ == v1::kFinishedByDestructor; }
  int32_t exit_code() const { return exit_code_; }

  // The next part: about `max_bytes` of records (at least one record); empty at the end.
  //   kDataLoss           a record contradicts the layout; earlier parts are good, this is the end
  //   kResourceExhausted  the same, because the ring has more shapes or keys than a stream may have
  //   kInternal           the same, because the read failed
  // Large items are read from `content`; null: they have no content.
  absl::StatusOr<Part> Next(size_t max_bytes, const ContentDir* content = nullptr);

 private:
  explicit SpoolReader(int fd) : fd_(fd) {}
  absl::Status ReadHeader();
  absl::Status ReadExactly(uint64_t offset, void* into, size_t size) const;
  // The bytes of the record at position_, valid until the next call.
  absl::StatusOr<absl::Span<const char>> Record();
  absl::Status AddShape(absl::Span<const char> record, Part* part);
  absl::Status AddRow(absl::Span<const char> record, Part* part);
  absl::Status AddItem(absl::Span<const char> record, const ContentDir* content, Part* part);
  int64_t UnixTime(uint64_t ticks) const;
  absl::Status Damaged(const std::string& what) const;

  int fd_;
  uint64_t incarnation_ = 0;
  std::string hello_;
  uint64_t data_bytes_ = 0;
  uint64_t position_ = 0;  // of the next record, in the same count as head_
  uint64_t head_ = 0;
  uint64_t rows_ = 0;
  ShapeBounds bounds_;
  uint64_t last_seq_ = 0;   // 0: no row was read yet
  int64_t last_step_ = 0;   // of the row last_seq_
  uint64_t last_item_ = 0;  // 0: no item was read yet
  model::Losses losses_;
  int64_t least_step_ = 0;
  uint32_t finished_ = v1::kNotFinished;
  int32_t exit_code_ = 0;
  uint64_t base_ticks_ = 0;
  int64_t base_unix_us_ = 0;
  double us_per_tick_ = 0;
  std::vector<char> window_;  // a piece of the ring, starting at window_start_
  uint64_t window_start_ = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_SPOOL_READER_H_
