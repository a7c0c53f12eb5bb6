#ifndef SERVICE_DELIVER_BISECTION_H_
#define SERVICE_DELIVER_BISECTION_H_

#include <algorithm>
#include <cstdint>

namespace ranklog::deliver {

// Finds the row that makes the server refuse a post, by bisection. Rows are sent in order, so
// halves that are accepted are delivered and not sent again.
class Bisection {
 public:
  // Returns how many of the `available` rows starting at `row` to post now.
  uint64_t Rows(uint64_t row, uint64_t available) const {
    if (suspects_end_ <= row) return available;
    return std::min(available, std::max<uint64_t>((suspects_end_ - row) / 2, 1));
  }

  // A post of rows [row, row + rows) was refused, so at least one of them is at fault.
  void Refused(uint64_t row, uint64_t rows) { suspects_end_ = row + rows; }
  // The row at fault is handled.
  void Clear() { suspects_end_ = 0; }

 private:
  uint64_t suspects_end_ = 0;  // a row before this one, not yet delivered, is at fault
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_BISECTION_H_
