// Which delivery is next: the order in which the workers of DeliverLoop take them.

#ifndef SERVICE_PIPELINE_DELIVERY_SCHEDULE_H_
#define SERVICE_PIPELINE_DELIVERY_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::pipeline {

// What is due goes in this order: of the runs that have ended, the oldest, also if it is due a few
// milliseconds after others; of those that live, the one that is due for the longest. Where there
// are both they take turns, so that backlogs do not keep rows of live runs from arriving, nor live
// runs backlogs.
//
// Each call costs the logarithm of what is in it. Not thread-safe.
class DeliverySchedule {
 public:
  using Key = std::pair<int64_t, std::string>;  // run, kind; older runs have smaller numbers

  // Replaces what was said of it before.
  void Put(const Key& key, absl::Time due, bool live);
  void Remove(const Key& key);
  // When it is due; nothing if it is not in here.
  absl::optional<absl::Time> DueOf(const Key& key) const;
  // The next that is due, which is thereby taken out.
  absl::optional<Key> Take(absl::Time now);
  // When Take() has something; InfiniteFuture if it is empty.
  absl::Time Next() const;

 private:
  using Timed = std::set<std::pair<absl::Time, Key>>;
  struct Entry {
    absl::Time due;
    bool live = false;
  };

  std::map<Key, Entry> entries_;
  Timed live_;
  Timed ended_;               // not in backlog_
  std::set<Key> backlog_;     // ended, and due, or as good as that
  bool live_is_next_ = true;  // where both wait
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_SCHEDULE_H_
