// What the deliveries to one place know together: whether it may be asked now.

#ifndef SERVICE_DELIVER_GATE_H_
#define SERVICE_DELIVER_GATE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/deliver/retry.h"

namespace ranklog::deliver {

// Open while all goes well: everybody may be inside at once. A failure closes it, for all. After
// that one at a time is let in until one of them is answered, unless the place had said itself when
// to come again. So a place that is away is asked by one delivery, however many have something for
// it, and holds up one worker; and what waited may go in order when it is back.
//
// Thread-safe.
class Gate {
 public:
  Gate(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // Zero: the caller is inside, until Leave(). Else how long to wait.
  absl::Duration Enter() ABSL_LOCKS_EXCLUDED(mutex_);
  void Leave() ABSL_LOCKS_EXCLUDED(mutex_);

  // The place gave an answer to somebody: it works.
  void Answered() ABSL_LOCKS_EXCLUDED(mutex_);
  // It did not, or asks for patience: closes the gate, unless it is closed already for as long as
  // it asks, and returns for how long. `why` is for those who wait.
  absl::Duration Failed(absl::optional<absl::Duration> retry_after, const std::string& why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // It answered, and asks not to be asked again for so long.
  void CloseFor(absl::Duration wait) ABSL_LOCKS_EXCLUDED(mutex_);
  // What Failed() was told, if nobody was answered since; else empty.
  std::string why() const ABSL_LOCKS_EXCLUDED(mutex_);
  // How often Answered() was called. Who fails twice, with answers for others in between, is at
  // fault itself, and should close the gate for nobody.
  uint64_t answers() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const std::function<absl::Time()> steady_clock_;
  const absl::Duration max_wait_;  // that the place may ask for
  mutable absl::Mutex mutex_;
  Backoff backoff_ ABSL_GUARDED_BY(mutex_);
  absl::Time closed_until_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool failing_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ ABSL_GUARDED_BY(mutex_);
  absl::Time entered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // the last who did
  int inside_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Of all places, by a name such as the server's URL. Thread-safe.
class Gates {
 public:
  // `steady_clock` never goes back.
  Gates(const Backoff::Options& backoff, std::function<absl::Time()> steady_clock);

  // The same one for the same name; lives as long as this.
  Gate* Of(const std::string& place) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  const Backoff::Options backoff_;
  const std::function<absl::Time()> steady_clock_;
  absl::Mutex mutex_;
  std::map<std::string, std::unique_ptr<Gate>> gates_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_GATE_H_
