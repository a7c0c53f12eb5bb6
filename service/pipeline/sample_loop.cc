#include "service/pipeline/sample_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "service/base/clock.h"

namespace ranklog::pipeline {
namespace {

// A rank that attaches does not always have its run committed yet.
constexpr absl::Duration kLookAgain = absl::Milliseconds(500);

// The CPU time of a run, the memory of its processes and the GPUs that they use are its own; traffic
// is counted since its start.
bool IsOfNode(const std::string& name) {
  for (const char* const own : {"cpu", "proc.", "gpu.process.", "network."}) {
    if (absl::StartsWith(name, own) && !absl::StartsWith(name, "cpu.")) return false;
  }
  return !absl::EndsWith(name, ".in") && !absl::EndsWith(name, ".out");
}

}  // namespace

SampleLoop::SampleLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                       std::function<std::map<int64_t, pid_t>()> pids, Options options)
    : store_(store), reader_(std::move(reader)), pids_(std::move(pids)), options_([&] {
        if (options.steady_clock == nullptr) options.steady_clock = SteadyNow;
        return std::move(options);
      }()) {}

SampleLoop::~SampleLoop() { Stop(); }

void SampleLoop::Start() {
  thread_ = std::thread([this] { Run(); });
}

void SampleLoop::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
    changed_.Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void SampleLoop::Notify() {
  absl::MutexLock lock(&mutex_);
  notified_ = true;
  changed_.Wake();
}

sample::Values SampleLoop::OfNode() const {
  absl::MutexLock lock(&mutex_);
  return of_node_;
}

SampleLoop::Counters SampleLoop::counters() const {
  absl::MutexLock lock(&mutex_);
  return counters_;
}

void SampleLoop::Run() {
  const auto woken = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return stopping_ || notified_; };
  while (true) {
    const absl::Duration wait = Step();
    absl::MutexLock lock(&mutex_);
    changed_.Await(&mutex_, wait, woken);
    if (stopping_) return;
  }
}

absl::Duration SampleLoop::Step() {
  bool notified;
  {
    absl::MutexLock lock(&mutex_);
    notified = std::exchange(notified_, false);
  }
  std::map<int64_t, std::vector<pid_t>> live = RunsToSample();
  for (auto it = runs_.begin(); it != runs_.end();) {
    it = live.count(it->first) == 0 ? runs_.erase(it) : std::next(it);
  }
  if (live.empty()) {
    node_.reset();
    absl::MutexLock lock(&mutex_);
    of_node_.clear();
    next_sample_ = absl::InfiniteFuture();
    return notified ? kLookAgain : absl::InfiniteDuration();
  }
  if (node_ == nullptr) {
    node_ = std::make_unique<sample::NodeSampler>(options_.node);
    next_sample_ = options_.steady_clock() + options_.interval;
  }
  const bool samples = options_.interval > absl::ZeroDuration();
  const absl::Time now = options_.steady_clock();
  const bool due = samples && now >= next_sample_;
  const bool is_new = std::any_of(live.begin(), live.end(),
                                  [this](const auto& run) { return runs_.count(run.first) == 0; });
  if (samples && (due || is_new)) {
    const sample::NodeReading reading = node_->Read(now);
    for (auto& [run, pids] : live) {
      const bool first = runs_.count(run) == 0;
      Sampled& sampled = runs_[run];
      // What a run uses counts from here. An earlier run's next sample may be due later.
      if (!due && !first) continue;
      sample::Values values = sampled.sampler.Sample(reading, pids);
      if (!first && !values.empty()) StoreSample(run, std::move(values));
    }
    if (due) next_sample_ = std::max(next_sample_ + options_.interval, now);
  }
  for (const auto& [run, pids] : live) {
    if (!std::exchange(runs_[run].has_hardware, true)) StoreHardware(run);
  }
  if (!samples) return notified ? kLookAgain : absl::InfiniteDuration();
  return std::max(next_sample_ - options_.steady_clock(), absl::ZeroDuration());
}

std::map<int64_t, std::vector<pid_t>> SampleLoop::RunsToSample() {
  struct Job {
    int64_t run = 0;
    uint32_t rank = 0;
    std::vector<pid_t> pids;
  };
  std::map<std::pair<std::string, std::string>, Job> jobs;
  const absl::StatusOr<std::vector<model::Stream>> streams = reader_->LiveStreams();
  if (!streams.ok()) return {};  // the store loop logs errors of the store
  const std::map<int64_t, pid_t> pids = pids_();
  for (const model::Stream& stream : *streams) {
    const auto pid = pids.find(stream.id);
    if (pid == pids.end()) continue;
    Job& job = jobs[{stream.key.project, stream.job_id}];
    if (job.run == 0 || stream.key.rank < job.rank) {
      job.run = stream.run;
      job.rank = stream.key.rank;
    }
    if (pid->second > 0) job.pids.push_back(pid->second);
  }
  std::map<int64_t, std::vector<pid_t>> runs;
  for (auto& [name, job] : jobs) {
    const absl::StatusOr<model::Run> run = reader_->GetRun(job.run);
    if (!run.ok() || run->settings.no_system_metrics) continue;
    std::sort(job.pids.begin(), job.pids.end());
    job.pids.erase(std::unique(job.pids.begin(), job.pids.end()), job.pids.end());
    runs[job.run] = std::move(job.pids);
  }
  return runs;
}

void SampleLoop::StoreHardware(int64_t run) {
  if (hardware_.is_null()) hardware_ = node_->Hardware();
  store_->Submit({.apply = [run, hardware = hardware_](
                               storage::Store& store) { return store.SetHardware(run, hardware); },
                  .done = nullptr});
}

void SampleLoop::StoreSample(int64_t run, sample::Values values) {
  model::Sample sample = {.time_us = absl::ToUnixMicros(options_.wall_clock()),
                          .values = std::move(values)};
  const bool drop = store_->full();
  sample::Values of_node;
  std::copy_if(sample.values.begin(), sample.values.end(), std::back_inserter(of_node),
               [](const auto& value) { return IsOfNode(value.first); });
  {
    absl::MutexLock lock(&mutex_);
    of_node_ = std::move(of_node);
    ++(drop ? counters_.dropped : counters_.samples);
  }
  if (drop) return;
  store_->Submit({.apply =
                      [run, sample = std::move(sample)](storage::Store& store) {
                        const absl::Status stored = store.AppendSample(run, sample);
                        // The run has ended meanwhile.
                        return absl::IsNotFound(stored) ? absl::OkStatus() : stored;
                      },
                  .done = nullptr});
}

}  // namespace ranklog::pipeline
