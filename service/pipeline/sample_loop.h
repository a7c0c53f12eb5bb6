// Takes the samples of system metrics, and stores them with the runs that show them.

#ifndef SERVICE_PIPELINE_SAMPLE_LOOP_H_
#define SERVICE_PIPELINE_SAMPLE_LOOP_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/base/steady_wait.h"
#include "service/pipeline/store_loop.h"
#include "service/sample/node_sampler.h"
#include "service/sample/run_sampler.h"
#include "service/storage/store_reader.h"

namespace ranklog::pipeline {

// Runs one thread. Each job has one run that gets its samples: of its running runs with a live rank
// on this node, that with the lowest rank. So a node is sampled once, whatever the log strategy.
// The facts of the node's hardware go to that run when its first rank has attached.
//
// No sample is taken while no run is live. A sample that cannot be stored now is dropped: the ranks'
// rows need the store more.
class SampleLoop {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(15);  // zero: no samples, only the hardware's facts
    sample::NodeSampler::Options node;
    std::function<absl::Time()> wall_clock = absl::Now;
    std::function<absl::Time()> steady_clock = nullptr;  // null: SteadyNow
  };
  struct Counters {
    uint64_t samples = 0;  // stored
    uint64_t dropped = 0;
  };

  // `store` must outlive this object. `pids`: the processes of the ranks' streams, by the store's id
  // of the stream.
  SampleLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
             std::function<std::map<int64_t, pid_t>()> pids, Options options);
  ~SampleLoop();  // calls Stop()

  void Start();
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);  // idempotent
  // A rank has attached. From any thread.
  void Notify() ABSL_LOCKS_EXCLUDED(mutex_);
  // One step of the thread. Returns the time until the next one.
  absl::Duration Step();
  Counters counters() const ABSL_LOCKS_EXCLUDED(mutex_);
  // The values of the last sample that are of the whole node, and not of one run; empty while none
  // is live. From any thread.
  sample::Values OfNode() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Sampled {
    sample::RunSampler sampler;
    std::vector<pid_t> pids;
    bool has_hardware = false;
  };
  void Run();
  // The runs that get samples now, by the store's id, with the processes of their jobs.
  std::map<int64_t, std::vector<pid_t>> RunsToSample();
  void StoreHardware(int64_t run);
  void StoreSample(int64_t run, sample::Values values);

  StoreLoop* const store_;
  const std::unique_ptr<storage::StoreReader> reader_;
  const std::function<std::map<int64_t, pid_t>()> pids_;
  const Options options_;

  // Used only by the stepping thread.
  std::unique_ptr<sample::NodeSampler> node_;  // while a run is live
  model::Json hardware_ = nullptr;
  std::map<int64_t, Sampled> runs_;
  absl::Time next_sample_ = absl::InfiniteFuture();

  mutable absl::Mutex mutex_;
  SteadyWait changed_;  // used with mutex_: stopping_ or notified_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool notified_ ABSL_GUARDED_BY(mutex_) = false;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  sample::Values of_node_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace ranklog::pipeline

#endif  // SERVICE_PIPELINE_SAMPLE_LOOP_H_
