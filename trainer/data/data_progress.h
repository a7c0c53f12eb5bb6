#ifndef TRAINER_DATA_DATA_PROGRESS_H_
#define TRAINER_DATA_DATA_PROGRESS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/time/time.h"

namespace ranklog::trainer {

// Prints the progress and the results of data preparation on stderr.
class DataProgress {
 public:
  // `shown`: false on all ranks but the first; every call then does nothing.
  explicit DataProgress(bool shown);
  // For tests: `write` takes the output, as WriteMessage() does; `now` gives the time.
  DataProgress(bool shown, bool terminal, std::function<void(const std::string&)> write,
               std::function<absl::Time()> now);

  // Prints a permanent line.
  void Print(const std::string& line);

  // Reports that part `what` has completed `done` of `total` units. Prints nothing in the first two
  // seconds of a part. Then prints in place on a terminal, and a line for every 10 % elsewhere.
  void Show(const std::string& what, uint64_t done, uint64_t total);

 private:
  const bool shown_;
  const bool terminal_;
  const std::function<void(const std::string&)> write_;
  const std::function<absl::Time()> now_;
  std::string what_;  // the current part
  absl::Time begin_ = absl::InfiniteFuture();
  absl::Time last_ = absl::InfinitePast();
  uint64_t tenths_ = 0;  // of the part, already printed
};

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_DATA_PROGRESS_H_
