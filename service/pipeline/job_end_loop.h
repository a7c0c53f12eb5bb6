// Learns from Slurm why it ended a job, and adds that to the reason of the job's runs.

#ifndef SERVICE_PIPELINE_JOB_END_LOOP_H_
#define SERVICE_PIPELINE_JOB_END_LOOP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "service/base/steady_wait.h"
#include "service/pipeline/store_loop.h"
#include "service/storage/store.h"

namespace ranklog::pipeline {

// A rank sees a signal, and not why it was sent: that the job was cancelled, or reached its time limit,
// is known to Slurm alone, and to nobody before its epilogs are over. So `scontrol show job` is asked
// after a run of a Slurm job has failed or crashed, and asked again while the job is completing; five
// times at most, and by the daemon of the node that has the job's rank 0, so that a job of a
// thousand nodes is one question. Where scontrol is missing, fails, hangs or does not know, runs keep
// the reason that they have.
//
// One thread, which nothing waits for.
class JobEndLoop {
 public:
  struct Options {
    // From the run's end to the first question, and from each to the next. Slurm forgets a job 300 s
    // after its end (MinJobAge).
    std::vector<absl::Duration> waits = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(5),
                                         absl::Seconds(12), absl::Seconds(40)};
    absl::Duration timeout = absl::Seconds(5);  // of a question, after which scontrol is killed
  };

  // `store` outlives Stop().
  JobEndLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Options options);
  ~JobEndLoop();  // Stop()

  void Start();
  // A run is closed, as failed or crashed. From any thread; does not block.
  void OnEnd(int64_t run);
  // Ends the thread, or leaves it behind where scontrol lies on a file system that hangs. Twice is
  // harmless.
  void Stop();

 private:
  // Of the thread and of who talks to it: the thread may outlive this object.
  struct Inbox {
    absl::Mutex mutex;
    SteadyWait changed;  // goes with the mutex: any of these
    std::vector<int64_t> ended ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool over ABSL_GUARDED_BY(mutex) = false;  // the thread has ended
  };
  class Thread;

  const std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Thread> body_;  // until Start()
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_JOB_END_LOOP_H_
