#include "service/deliver/wandb/history/run_clock.h"

#include <algorithm>
#include <map>
#include <utility>

namespace ranklog::deliver::wandb {

RunClock::RunClock(const model::Run& run, absl::Span<const model::Stream> streams,
                   int64_t before_us) {
  const int64_t start_us =
      run.settings.start_time_us > 0 ? run.settings.start_time_us : run.started_us;
  attempts_ = {{start_us, before_us}};
  struct Times {
    int64_t begin_us = INT64_MAX;
    int64_t end_us = 0;
    bool live = false;
  };
  std::map<uint32_t, Times> times;  // by attempt
  for (const model::Stream& stream : streams) {
    if (!stream.primary) continue;
    Times& of = times[stream.attempt];
    of.begin_us = std::min(of.begin_us, stream.init_us > 0 ? stream.init_us : stream.started_us);
    of.end_us = std::max(of.end_us, stream.ended_us);
    of.live |= stream.ended_us == 0;
  }
  const Times* before = nullptr;
  for (const auto& [attempt, of] : times) {
    // Clocks of processes and of the daemon may differ; then the attempts count as one.
    if (before != nullptr && !before->live && of.begin_us > before->end_us &&
        before->end_us > attempts_.back().first) {
      attempts_.push_back({of.begin_us, RuntimeUs(before->end_us)});
    }
    before = &of;
  }
}

RunClock::RunClock(std::vector<Attempt> attempts) {
  if (!attempts.empty()) attempts_ = std::move(attempts);
}

const RunClock::Attempt& RunClock::At(int64_t time_us) const {
  const auto after =
      std::upper_bound(attempts_.begin() + 1, attempts_.end(), time_us,
                       [](int64_t time, const Attempt& attempt) { return time < attempt.first; });
  return *(after - 1);
}

int64_t RunClock::RuntimeUs(int64_t time_us) const {
  return At(time_us).second + InAttemptUs(time_us);
}

int64_t RunClock::InAttemptUs(int64_t time_us) const {
  return std::max<int64_t>(time_us - At(time_us).first, 0);
}

}  // namespace ranklog::deliver::wandb
