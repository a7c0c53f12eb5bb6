// Reads GPUs on a thread of its own, so that a driver that hangs delays only GPU values.

#ifndef SERVICE_SAMPLE_GPU_GPU_THREAD_H_
#define SERVICE_SAMPLE_GPU_GPU_THREAD_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "service/model/item.h"
#include "service/sample/gpu/gpu_source.h"

namespace ranklog::sample {

// Used by one thread.
class GpuThread {
 public:
  // Calls `open` on the new thread, and then the GpuSource that it returns; null: there are no GPUs.
  // If no thread can be started, all readings are empty.
  explicit GpuThread(std::function<std::unique_ptr<GpuSource>()> open);
  // Waits up to kEndWait for the source's destructor. A thread that hangs in the driver is left
  // behind.
  ~GpuThread();
  GpuThread(const GpuThread&) = delete;
  GpuThread& operator=(const GpuThread&) = delete;

  // Returns a new reading; empty if it takes longer than `wait`, and as long as an earlier one
  // still runs.
  std::vector<GpuReading> Read(absl::Duration wait);
  // Returns an empty object if the source does not open in `wait`.
  model::Json Hardware(absl::Duration wait);

  static constexpr absl::Duration kEndWait = absl::Seconds(2);

 private:
  struct State;
  static void Run(const std::shared_ptr<State>& state,
                  const std::function<std::unique_ptr<GpuSource>()>& open);

  // Shared with the thread, which may outlive this object.
  std::shared_ptr<State> state_;
};

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_GPU_GPU_THREAD_H_
