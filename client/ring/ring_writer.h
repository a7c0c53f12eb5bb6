// Writes the records of one ring: the body of Log().
//
// Uses no lock, no system call and no wake-up, and allocates only for a new shape. For one thread
// at a time. The sender and the daemon may read the ring at any moment; they see only whole
// records.

#ifndef CLIENT_RING_RING_WRITER_H_
#define CLIENT_RING_RING_WRITER_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "client/ring/handles.h"
#include "client/ring/shapes.h"
#include "client/ring/spool/spool.h"
#include "client/ring/steps.h"
#include "client/ring/write_result.h"
#include "ranklog/c.h"
#include "ranklog/value.h"

namespace ranklog::internal {

class RingWriter {
 public:
  // `spool` must be empty, and must outlive this object.
  explicit RingWriter(Spool* spool);

  // Each writes one row, after its shape if the shape is new. If a key occurs twice in a row, the
  // last value counts, whatever its type. A value whose key or content cannot be logged is left out
  // and counted, and the result is kTakenInPart. After kInvalid, reason() gives the reason. A
  // refused row does not take `step`.
  WriteResult Write(std::span<const ranklog_field> row, const RowStep& step);
  WriteResult Write(std::span<const ranklog_key_value> row, const RowStep& step);
  WriteResult Write(const RowShape& shape, std::span<const double> values, const RowStep& step);
  WriteResult Write(std::span<const Metric> row, const RowStep& step) {
    const ranklog_field* const fields = row.data();
    return Write(std::span(fields, row.size()), step);
  }

  // Writes an item: a serialized ranklog.v1.Item with its content.
  WriteResult WriteItem(std::string_view content);

  // Counts a row that was refused. A signal handler may call it.
  void CountLoss(WriteResult outcome) { internal::CountLoss(outcome, *header_); }
  // Counts values that are left out of a row before it is written.
  void CountLostValues(uint64_t values) {
    header_->lost_values.fetch_add(values, std::memory_order_relaxed);
  }

  const std::string& reason() const { return reason_; }

  // After kTakenInPart: why values were left out. Empty if RowShape::left_out is the reason.
  const std::vector<std::string>& left_out() const { return left_out_; }

  // While it lives, a row that is too large is written without the texts that are too large for the
  // ring even alone.
  class LeavingOutLarge {
   public:
    explicit LeavingOutLarge(RingWriter* writer) : writer_(writer) {
      writer_->leaves_out_large_ = true;
    }
    ~LeavingOutLarge() { writer_->leaves_out_large_ = false; }
    LeavingOutLarge(const LeavingOutLarge&) = delete;
    LeavingOutLarge& operator=(const LeavingOutLarge&) = delete;

   private:
    RingWriter* const writer_;
  };

  // After kTooLarge: the size of the record in bytes. A record takes at most half of a ring.
  size_t too_large() const { return too_large_; }

  // The smallest step that the ring's next row may be given.
  int64_t least_step() const { return least_step_; }
  // The same, but only for rows of the thread that holds the ring now. Steps never decrease within
  // a thread, but the ring may have belonged to other threads before.
  int64_t least_step_of_thread() const { return rows_ > lent_rows_ ? least_step_ : lent_step_; }
  // Lends the ring to a thread whose next given step is at least `step`.
  void Lend(int64_t step) {
    lent_rows_ = rows_;
    lent_step_ = step;
    least_step_ = std::max(least_step_, step);
  }

  // True while a thread is in a WriterCall.
  std::atomic<bool> busy = false;
  uint32_t steps_word = 0;  // see SharedSteps; set before the first row

 private:
  std::byte* Reserve(size_t bytes) {
    return bytes <= room_ ? data_ + position_ : ReserveSlowly(bytes);
  }
  std::byte* ReserveSlowly(size_t bytes);
  void Publish(size_t bytes);
  // Not inline: GCC would inline a part, and pass the rest on the stack, which costs 0.5 ns.
  [[gnu::noinline]] WriteResult PublishRow(std::byte* record, Shape* shape, size_t values,
                                           size_t text_bytes, size_t text_count,
                                           const RowStep& step);
  WriteResult Refusal(size_t bytes);
  WriteResult TakenInPart(size_t values);
  WriteResult WriteSlowly(std::span<const ranklog_field> row, const RowStep& step);
  void AddText(const ranklog_field& metric);
  bool LeaveOutInvalidKeys();
  Shape* Find(std::span<const std::string_view> keys);
  WriteResult WriteLastOfEach(std::span<const ranklog_field> row, const RowStep& step);
  WriteResult FindOrDefine(std::span<const std::string_view> keys, const RowStep& step,
                           Shape** shape);
  WriteResult Define(std::span<const std::string_view> keys, Shape** shape);
  bool HasDuplicates(std::span<const std::string_view> keys);
  bool HasRepeatedText();

  v1::SpoolHeader* const header_;
  std::byte* const data_;
  const size_t capacity_;
  const bool steady_counter_;
  size_t position_ = 0;  // offset of head_ in the ring
  size_t room_ = 0;      // bytes known to be free from position_ on, at most half of the ring
  uint64_t head_ = 0;
  uint64_t rows_ = 0;
  uint64_t items_ = 0;
  int64_t least_step_ = 0;  // the last row's step, or one more if that row commits
  uint64_t lent_rows_ = 0;  // when the thread got the ring
  int64_t lent_step_ = 0;
  ShapeTable shapes_;
  std::vector<Shape*> by_row_shape_;  // by RowShape::index; null: not used yet
  std::string reason_;
  size_t too_large_ = 0;
  bool leaves_out_large_ = false;

  // Scratch memory of WriteSlowly(), kept between calls.
  std::vector<std::string_view> keys_;
  std::vector<double> values_;
  // A value that is not a double. The text is `text`, or `bytes` bytes of json_ from `begin` on.
  struct Text {
    std::string_view key;
    std::string_view text;
    bool json;
    size_t begin;
    size_t bytes;
  };
  std::vector<Text> texts_;
  std::string json_;
  std::vector<std::string> left_out_;
  std::vector<std::string_view> text_keys_;
  bool duplicates_ = false;  // Define() found some
};

}  // namespace ranklog::internal

#endif  // CLIENT_RING_RING_WRITER_H_
