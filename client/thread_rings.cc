#include "client/thread_rings.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/run_state.h"

namespace ranklog::internal {
namespace {

class ThreadRings {
 public:
  ~ThreadRings();
  std::shared_ptr<Ring> Find(uint64_t token) const;
  void Add(uint64_t token, std::weak_ptr<RunState> run, std::shared_ptr<Ring> ring);
  void Clear() { entries_.clear(); }

 private:
  struct Entry {
    uint64_t token;
    std::weak_ptr<RunState> run;
    std::shared_ptr<Ring> ring;
  };
  std::vector<Entry> entries_;
};

constinit thread_local bool thread_is_exiting = false;
constinit thread_local bool thread_finds_writer = false;
thread_local ThreadRings thread_rings;

ThreadRings::~ThreadRings() {
  thread_is_exiting = true;
  thread_cache = {};
  for (Entry& entry : entries_) {
    // exit() also ends the thread if a signal handler calls it in the middle of a Log().
    if (entry.ring->writer.busy.load(std::memory_order_relaxed)) {
      entry.ring->cut_off.store(true, std::memory_order_release);
      continue;
    }
    if (auto run = entry.run.lock()) run->ReturnRing(std::move(entry.ring));
  }
}

std::shared_ptr<Ring> ThreadRings::Find(uint64_t token) const {
  // The last one counts: the earlier ones were too small for some record.
  const auto entry = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [&](const Entry& each) { return each.token == token; });
  return entry == entries_.rend() ? nullptr : entry->ring;
}

void ThreadRings::Add(uint64_t token, std::weak_ptr<RunState> run, std::shared_ptr<Ring> ring) {
  std::erase_if(entries_, [](const Entry& entry) { return entry.run.expired(); });
  entries_.push_back({token, std::move(run), std::move(ring)});
}

}  // namespace

constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec"))) = {};

std::shared_ptr<Ring> FindThreadRing(uint64_t token) {
  return thread_is_exiting ? nullptr : thread_rings.Find(token);
}

void AddThreadRing(uint64_t token, std::weak_ptr<RunState> run, std::shared_ptr<Ring> ring) {
  if (!thread_is_exiting) thread_rings.Add(token, std::move(run), std::move(ring));
}

bool ThreadIsExiting() { return thread_is_exiting; }

void ForgetThreadRings() {
  thread_cache = {};
  thread_rings.Clear();
}

WriterSearch::WriterSearch() { thread_finds_writer = true; }
WriterSearch::~WriterSearch() { thread_finds_writer = false; }
bool WriterSearch::InProgress() { return thread_finds_writer; }

}  // namespace ranklog::internal
