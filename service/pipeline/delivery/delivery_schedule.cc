#include "service/pipeline/delivery/delivery_schedule.h"

#include <algorithm>

namespace ranklog::pipeline {
namespace {

// Backlogs that wait for the same moment get due times that differ by the delay of their threads.
// They count as due together. Otherwise the order by age would be lost.
constexpr absl::Duration kTogether = absl::Milliseconds(10);

}  // namespace

void DeliverySchedule::Put(const Key& key, absl::Time due, bool live) {
  Remove(key);
  entries_[key] = {.due = due, .live = live};
  (live ? live_ : ended_).insert({due, key});
}

void DeliverySchedule::Remove(const Key& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return;
  const Entry entry = found->second;
  entries_.erase(found);
  (entry.live ? live_ : ended_).erase({entry.due, key});
  backlog_.erase(key);
}

absl::optional<absl::Time> DeliverySchedule::DueOf(const Key& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return absl::nullopt;
  return found->second.due;
}

absl::optional<DeliverySchedule::Key> DeliverySchedule::Take(absl::Time now) {
  const bool due = !ended_.empty() && ended_.begin()->first <= now;
  while (due && !ended_.empty() && ended_.begin()->first <= now + kTogether) {
    backlog_.insert(ended_.extract(ended_.begin()).value().second);
  }
  const bool live = !live_.empty() && live_.begin()->first <= now;
  if (!live && backlog_.empty()) return absl::nullopt;
  const bool take_live = live && (live_is_next_ || backlog_.empty());
  if (live && !backlog_.empty()) live_is_next_ = !live_is_next_;
  const Key key = take_live ? live_.begin()->second : *backlog_.begin();
  Remove(key);
  return key;
}

absl::Time DeliverySchedule::Next() const {
  if (!backlog_.empty()) return absl::InfinitePast();
  absl::Time next = absl::InfiniteFuture();
  if (!live_.empty()) next = live_.begin()->first;
  if (!ended_.empty()) next = std::min(next, ended_.begin()->first);
  return next;
}

}  // namespace ranklog::pipeline
