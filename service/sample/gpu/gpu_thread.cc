#include "service/sample/gpu/gpu_thread.h"

#include <cstdint>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "service/base/steady_wait.h"

namespace ranklog::sample {

struct GpuThread::State {
  absl::Mutex mutex;
  SteadyWait changed;
  bool stop ABSL_GUARDED_BY(mutex) = false;
  bool opened ABSL_GUARDED_BY(mutex) = false;
  bool ended ABSL_GUARDED_BY(mutex) = false;
  // Readings that were asked for, and that were taken. They differ while one is taken.
  uint64_t asked ABSL_GUARDED_BY(mutex) = 0;
  uint64_t taken ABSL_GUARDED_BY(mutex) = 0;
  std::vector<GpuReading> reading ABSL_GUARDED_BY(mutex);
  model::Json hardware ABSL_GUARDED_BY(mutex) = model::Json::object();
};

GpuThread::GpuThread(std::function<std::unique_ptr<GpuSource>()> open)
    : state_(std::make_shared<State>()) {
  try {
    std::thread([state = state_, open = std::move(open)] { Run(state, open); }).detach();
  } catch (const std::system_error&) {  // too many threads
    const absl::MutexLock lock(&state_->mutex);
    state_->opened = state_->ended = true;
  }
}

GpuThread::~GpuThread() {
  State& state = *state_;
  const absl::MutexLock lock(&state.mutex);
  state.stop = true;
  state.changed.Wake();
  const auto ended = [&state]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return state.ended; };
  state.changed.Await(&state.mutex, kEndWait, ended);
}

void GpuThread::Run(const std::shared_ptr<State>& state,
                    const std::function<std::unique_ptr<GpuSource>()>& open) {
  std::unique_ptr<GpuSource> source = open();
  model::Json hardware = source == nullptr ? model::Json::object() : source->Hardware();
  {
    const absl::MutexLock lock(&state->mutex);
    state->hardware = std::move(hardware);
    state->opened = true;
    state->changed.Wake();
  }
  for (;;) {
    uint64_t asked = 0;
    {
      const absl::MutexLock lock(&state->mutex);
      const auto wanted = [&state]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
        return state->stop || state->asked > state->taken;
      };
      while (!state->changed.Await(&state->mutex, absl::Hours(1), wanted)) {
      }
      if (state->stop) break;
      asked = state->asked;
    }
    std::vector<GpuReading> reading;
    if (source != nullptr) reading = source->Read();
    const absl::MutexLock lock(&state->mutex);
    state->reading = std::move(reading);
    state->taken = asked;
    state->changed.Wake();
  }
  source.reset();
  const absl::MutexLock lock(&state->mutex);
  state->ended = true;
  state->changed.Wake();
}

std::vector<GpuReading> GpuThread::Read(absl::Duration wait) {
  State& state = *state_;
  const absl::MutexLock lock(&state.mutex);
  if (state.ended || state.asked > state.taken) return {};
  ++state.asked;
  state.changed.Wake();
  const auto taken = [&state]()
                         ABSL_NO_THREAD_SAFETY_ANALYSIS { return state.taken == state.asked; };
  if (!state.changed.Await(&state.mutex, wait, taken)) return {};
  return std::exchange(state.reading, {});
}

model::Json GpuThread::Hardware(absl::Duration wait) {
  State& state = *state_;
  const absl::MutexLock lock(&state.mutex);
  const auto opened = [&state]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return state.opened; };
  if (!state.changed.Await(&state.mutex, wait, opened)) return model::Json::object();
  return state.hardware;
}

}  // namespace ranklog::sample
