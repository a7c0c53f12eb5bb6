// Asks Slurm why it ended a job, and adds the answer to the reason of the job's runs.

#ifndef SERVICE_PIPELINE_JOB_END_JOB_END_LOOP_H_
#define SERVICE_PIPELINE_JOB_END_JOB_END_LOOP_H_

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
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// A rank sees only a signal, not its cause. Only Slurm knows that the job was cancelled or reached
// its time limit, and only after the job's epilogs. So the loop runs `scontrol show job` after a
// run of a Slurm job has failed or crashed. It asks again while the job is completing, five times
// at most.
//
// Only the daemon on the node with the job's rank 0 asks, so that a job of a thousand nodes causes
// one query. If scontrol is missing, fails, hangs or does not know, runs keep their reason.
//
// Runs one thread, for which nothing waits.
class JobEndLoop {
 public:
  struct Options {
    // Time from the run's end to the first query, and between queries. Slurm forgets a job 300 s
    // after its end (MinJobAge).
    std::vector<absl::Duration> waits = {absl::Seconds(1), absl::Seconds(2), absl::Seconds(5),
                                         absl::Seconds(12), absl::Seconds(40)};
    absl::Duration timeout = absl::Seconds(5);  // of a query; then scontrol is killed
  };

  // `store` must stay valid until Stop() has returned.
  JobEndLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Options options);
  ~JobEndLoop();  // calls Stop()

  void Start();
  // Call it when a run is closed as failed or crashed. From any thread; does not block.
  void OnEnd(int64_t run);
  // Ends the thread. Detaches the thread if it does not end, for example because scontrol lies on a
  // file system that hangs. Idempotent.
  void Stop();

 private:
  // Shared by the thread and this object: the thread may outlive this object.
  struct Inbox {
    absl::Mutex mutex;
    SteadyWait changed;  // used with the mutex; wakes for any of these
    std::vector<int64_t> ended ABSL_GUARDED_BY(mutex);
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    bool over ABSL_GUARDED_BY(mutex) = false;  // the thread has ended
  };
  class Thread;

  const std::shared_ptr<Inbox> inbox_;
  std::unique_ptr<Thread> body_;  // null after Start()
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_JOB_END_JOB_END_LOOP_H_
