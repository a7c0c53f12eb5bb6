// The simulated world's clock, random choices and events. Everything follows from one seed.

#ifndef TESTS_SIMULATION_WORLD_H_
#define TESTS_SIMULATION_WORLD_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

namespace ranklog::simulation {

// For one thread. Events at the same time run in the order in which they were scheduled.
class World {
 public:
  explicit World(uint64_t seed) : engine_(seed) {}

  absl::Time now() const { return now_; }
  absl::Duration age() const { return now_ - kStart; }

  void After(absl::Duration delay, std::function<void()> event) {
    events_.emplace(std::make_pair(now_ + delay, next_++), std::move(event));
  }
  // Runs the next event. Returns false if there are none.
  bool Next() {
    if (events_.empty()) return false;
    auto first = events_.begin();
    now_ = first->first.first;
    const std::function<void()> event = std::move(first->second);
    events_.erase(first);
    event();
    return true;
  }

  // Runs all events of the next `span`, while the caller waits inside its own event.
  void Wait(absl::Duration span) {
    const absl::Time until = now_ + span;
    while (!events_.empty() && events_.begin()->first.first <= until) Next();
    now_ = std::max(now_, until);
  }

  uint64_t Below(uint64_t bound) { return engine_() % bound; }
  uint64_t Between(uint64_t low, uint64_t high) { return low + Below(high - low + 1); }
  bool Chance(double probability) {
    return static_cast<double>(engine_() >> 11) * 0x1p-53 < probability;
  }
  absl::Duration Delay(int64_t low_ms, int64_t high_ms) {
    const auto low = static_cast<uint64_t>(low_ms * 1000);
    return absl::Microseconds(
        static_cast<int64_t>(Between(low, static_cast<uint64_t>(high_ms * 1000))));
  }
  uint64_t Bits() { return engine_(); }

  // Faults happen while this is true.
  bool faults = true;

  // Records a step. Two runs of one seed must have the same hash; otherwise something is not
  // deterministic. Keeps the lines if `keep_trace` is set.
  bool keep_trace = false;
  template <typename... Parts>
  void Note(const Parts&... parts) {
    const std::string line = absl::StrCat(absl::FormatDuration(age()), " ", parts...);
    for (char c : line) hash_ = (hash_ ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
    if (keep_trace) trace_.push_back(line);
  }
  uint64_t hash() const { return hash_; }
  const std::vector<std::string>& trace() const { return trace_; }

 private:
  const absl::Time kStart = absl::FromUnixSeconds(1'900'000'000);

  std::mt19937_64 engine_;
  absl::Time now_ = kStart;
  uint64_t next_ = 0;
  std::map<std::pair<absl::Time, uint64_t>, std::function<void()>> events_;
  uint64_t hash_ = 0xcbf29ce484222325ULL;
  std::vector<std::string> trace_;
};

// The wall clock of a node. Somebody sets it now and then. The world's time, which steady clocks
// show, is not affected.
class WallClock {
 public:
  explicit WallClock(const World* world) : world_(*world) {}
  absl::Time now() const { return world_.now() + offset_; }
  void Step(absl::Duration by) { offset_ += by; }

 private:
  const World& world_;
  absl::Duration offset_ = absl::ZeroDuration();
};

}  // namespace ranklog::simulation

#endif  // TESTS_SIMULATION_WORLD_H_
