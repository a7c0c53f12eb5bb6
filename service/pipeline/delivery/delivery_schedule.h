// The order in which the workers of DeliverLoop take deliveries.

#ifndef SERVICE_PIPELINE_DELIVERY_DELIVERY_SCHEDULE_H_
#define SERVICE_PIPELINE_DELIVERY_DELIVERY_SCHEDULE_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::pipeline {

// Order of due deliveries:
//   runs that have ended  the oldest run first, even if it is due a few milliseconds after others
//   live runs             the delivery that has been due for the longest time first
//
// If both wait, they take turns. So backlogs do not delay rows of live runs, and live runs do not
// block backlogs.
//
// Each call has logarithmic cost in the number of entries. Not thread-safe.
class DeliverySchedule {
 public:
  using Key = std::pair<int64_t, std::string>;  // run, kind; older runs have smaller numbers

  // Adds the key or replaces its entry.
  void Put(const Key& key, absl::Time due, bool live);
  void Remove(const Key& key);
  // The due time of the key; nullopt if it has no entry.
  absl::optional<absl::Time> DueOf(const Key& key) const;
  // Removes and returns the next due key.
  absl::optional<Key> Take(absl::Time now);
  // The earliest time at which Take() returns a key; InfiniteFuture if there are no entries.
  absl::Time Next() const;

 private:
  using Timed = std::set<std::pair<absl::Time, Key>>;
  struct Entry {
    absl::Time due;
    bool live = false;
  };

  std::map<Key, Entry> entries_;
  Timed live_;
  Timed ended_;               // entries that are not in backlog_
  std::set<Key> backlog_;     // ended runs that are due, or nearly due
  bool live_is_next_ = true;  // if both wait
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_DELIVERY_DELIVERY_SCHEDULE_H_
