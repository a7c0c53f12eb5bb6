#include "service/pipeline/job_end/job_end_loop.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "service/base/clock.h"
#include "service/pipeline/job_end/program_output.h"
#include "service/pipeline/job_end/slurm_job.h"

namespace ranklog::pipeline {
namespace {

// Runs of a job that are closed this long after the first one still get the answer.
constexpr absl::Duration kKeepAnswer = absl::Minutes(2);

// Logs after this many queries without an answer. One failure may mean only that slurmctld was
// briefly unreachable.
constexpr size_t kLogAfter = 2;

// Longer than the thread needs to end, unless it hangs.
constexpr absl::Duration kStopWait = absl::Seconds(1);

}  // namespace

class JobEndLoop::Thread {
 public:
  Thread(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader, Options options,
         std::shared_ptr<Inbox> inbox)
      : store_(store),
        reader_(std::move(reader)),
        options_(std::move(options)),
        inbox_(std::move(inbox)) {}

  void Run() {
    Inbox* const inbox = inbox_.get();
    const auto has_something = [inbox]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox->mutex) {
      return inbox->stopping || !inbox->ended.empty();
    };
    while (true) {
      const absl::Duration wait = Step();
      std::vector<int64_t> ended;
      {
        absl::MutexLock lock(&inbox->mutex);
        inbox->changed.Await(&inbox->mutex, wait, has_something);
        if (inbox->stopping) break;
        ended.swap(inbox->ended);
      }
      for (int64_t run : ended) AddRun(run);
    }
    absl::MutexLock lock(&inbox->mutex);
    inbox->over = true;
    inbox->changed.Wake();
  }

 private:
  // Slurm job id and number of requeues.
  using Key = std::pair<std::string, uint32_t>;
  struct Job {
    std::map<int64_t, int64_t> ended_us;  // runs that wait for the answer
    bool has_rank_0 = false;
    size_t asked = 0;
    absl::Time due;  // next query; after the answer, when to forget it
    absl::optional<std::string> why;
  };

  void AddRun(int64_t id) {
    const absl::StatusOr<model::Run> run = reader_->GetRun(id);
    const absl::StatusOr<std::vector<model::Stream>> streams = reader_->Streams(id);
    if (!run.ok() || !streams.ok()) return;  // removed or damaged; other code reports that
    const auto last = std::max_element(      // the newest start in this run
        streams->begin(), streams->end(),
        [](const model::Stream& one, const model::Stream& other) { return one.id < other.id; });
    if (last == streams->end()) return;
    const Key key(SlurmJobId(last->launch.batch_job), last->launch.requeue);
    if (key.first.empty()) return;
    const bool has_rank_0 =
        std::any_of(streams->begin(), streams->end(),
                    [](const model::Stream& stream) { return stream.key.rank == 0; });
    const auto [job, is_new] = jobs_.try_emplace(key);
    if (is_new) job->second.due = SteadyNow() + options_.waits.front();
    job->second.has_rank_0 |= has_rank_0;
    job->second.ended_us[id] = run->ended_us;
    if (job->second.why) Apply(&job->second);
  }

  // Sends the due queries. Returns the time until the next one.
  absl::Duration Step() {
    absl::Time next = absl::InfiniteFuture();
    for (auto entry = jobs_.begin(); entry != jobs_.end();) {
      Job& job = entry->second;
      const bool over = SteadyNow() >= job.due && !Ask(entry->first, &job);
      if (!over) next = std::min(next, job.due);
      entry = over ? jobs_.erase(entry) : std::next(entry);
    }
    return std::max(next - SteadyNow(), absl::ZeroDuration());
  }

  // False: no more information on this job is expected.
  bool Ask(const Key& key, Job* job) {
    if (job->why) return false;
    absl::StatusOr<std::string> output("");
    if (job->has_rank_0) {
      output = OutputOf({"scontrol", "--details", "show", "job", key.first}, {"SLURM_CONF"},
                        options_.timeout, [this] { return stopping(); });
      if (absl::IsNotFound(output.status())) {
        spdlog::info("cannot find out why Slurm ended job {}: {}", key.first,
                     std::string(output.status().message()));
        return false;
      }
      if (output.ok()) job->why = SlurmEndReason(*output, key.first, key.second);
    }
    if (job->why) {
      Apply(job);
      job->due = SteadyNow() + kKeepAnswer;
      return true;
    }
    ++job->asked;
    if (job->has_rank_0 && job->asked == kLogAfter) LogUnknown(key.first, output);
    if (job->asked >= options_.waits.size()) return false;
    job->due = SteadyNow() + options_.waits[job->asked];
    return true;
  }

  static void LogUnknown(const std::string& job, const absl::StatusOr<std::string>& output) {
    if (output.ok() && !output->empty()) return;  // the job has not ended yet
    spdlog::info(
        "cannot find out yet why Slurm ended job {}: {}; if scontrol cannot find slurm.conf, set "
        "SLURM_CONF for ranklogd",
        job,
        output.ok() ? "scontrol printed nothing"
                    : "scontrol: " + std::string(output.status().message()));
  }

  void Apply(Job* job) {
    const auto runs = std::exchange(job->ended_us, {});
    if (job->why->empty()) return;
    spdlog::info("{}", *job->why);
    absl::MutexLock lock(&inbox_->mutex);
    if (inbox_->stopping) return;  // the store may be gone
    store_->Submit({.apply =
                        [runs, why = *job->why](storage::Store& store) {
                          absl::Status status;
                          for (const auto& [run, ended_us] : runs) {
                            status.Update(store.AddReason(run, ended_us, why));
                          }
                          return status;
                        },
                    .done = nullptr});
  }

  bool stopping() {
    absl::MutexLock lock(&inbox_->mutex);
    return inbox_->stopping;
  }

  StoreLoop* const store_;  // valid until inbox_->stopping is true
  const std::unique_ptr<storage::StoreReader> reader_;
  const Options options_;
  const std::shared_ptr<Inbox> inbox_;
  std::map<Key, Job> jobs_;
};

JobEndLoop::JobEndLoop(StoreLoop* store, std::unique_ptr<storage::StoreReader> reader,
                       Options options)
    : inbox_(std::make_shared<Inbox>()),
      body_(std::make_unique<Thread>(store, std::move(reader), std::move(options), inbox_)) {}

JobEndLoop::~JobEndLoop() { Stop(); }

void JobEndLoop::Start() {
  thread_ = std::thread([body = std::move(body_)] { body->Run(); });
}

void JobEndLoop::OnEnd(int64_t run) {
  absl::MutexLock lock(&inbox_->mutex);
  inbox_->ended.push_back(run);
  inbox_->changed.Wake();
}

void JobEndLoop::Stop() {
  if (!thread_.joinable()) return;
  Inbox* const inbox = inbox_.get();
  bool over = false;
  {
    absl::MutexLock lock(&inbox->mutex);
    inbox->stopping = true;
    inbox->changed.Wake();
    over = inbox->changed.Await(
        &inbox->mutex, kStopWait,
        [inbox]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(inbox->mutex) { return inbox->over; });
  }
  if (over) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

}  // namespace ranklog::pipeline
