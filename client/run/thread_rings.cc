#include "client/run/thread_rings.h"

#include <pthread.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "client/run/run_state.h"

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

// For an exiting thread whose `thread_rings` is gone. The value of a key outlives all thread_local
// objects.
void ReturnRings(void* rings) { delete static_cast<ThreadRings*>(rings); }

// nullopt: the program has all keys in use. Such rings then return to no run.
std::optional<pthread_key_t> LateRingsKey() {
  static const auto key = []() -> std::optional<pthread_key_t> {
    pthread_key_t made;
    if (pthread_key_create(&made, ReturnRings) != 0) return std::nullopt;
    return made;
  }();
  return key;
}

ThreadRings* LateRings() {
  const auto key = LateRingsKey();
  return key ? static_cast<ThreadRings*>(pthread_getspecific(*key)) : nullptr;
}

ThreadRings* MakeLateRings() {
  const auto key = LateRingsKey();
  auto made = std::make_unique<ThreadRings>();
  return key && pthread_setspecific(*key, made.get()) == 0 ? made.release() : nullptr;
}

}  // namespace

constinit thread_local ThreadCache thread_cache __attribute__((tls_model("initial-exec"))) = {};

std::shared_ptr<Ring> FindThreadRing(uint64_t token) {
  const ThreadRings* const rings = thread_is_exiting ? LateRings() : &thread_rings;
  return rings == nullptr ? nullptr : rings->Find(token);
}

void AddThreadRing(uint64_t token, std::weak_ptr<RunState> run, std::shared_ptr<Ring> ring) {
  ThreadRings* rings = thread_is_exiting ? LateRings() : &thread_rings;
  if (rings == nullptr) rings = MakeLateRings();
  if (rings != nullptr) rings->Add(token, std::move(run), std::move(ring));
}

void ForgetThreadRings() {
  thread_cache = {};
  ThreadRings* const rings = thread_is_exiting ? LateRings() : &thread_rings;
  if (rings != nullptr) rings->Clear();
}

WriterSearch::WriterSearch() { thread_finds_writer = true; }
WriterSearch::~WriterSearch() { thread_finds_writer = false; }
bool WriterSearch::InProgress() { return thread_finds_writer; }

}  // namespace ranklog::internal
