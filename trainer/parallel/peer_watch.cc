#include "trainer/parallel/peer_watch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <sstream>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/notification.h"
#include "trainer/base/rank_error.h"

namespace ranklog::trainer {
namespace {

constexpr absl::Duration kBeat = absl::Seconds(1);
constexpr absl::Duration kSearch = absl::Seconds(4);  // kSilence and a beat: a rank just died
constexpr absl::Duration kStorePatience = absl::Seconds(5);

// A rank's last heartbeat.
struct Beat {
  double age = 0;           // seconds since the rendezvous
  int64_t collectives = 0;  // begun so far
};

std::string ReadText(c10d::Store& store, const std::string& key) {
  const std::vector<uint8_t> bytes = store.get(key);
  return {bytes.begin(), bytes.end()};
}

void WriteText(c10d::Store& store, const std::string& key, const std::string& text) {
  store.set(key, std::vector<uint8_t>(text.begin(), text.end()));
}

std::string BeatKey(int rank) { return absl::StrCat("beat/", rank); }
std::string ProcessKey(int rank) { return absl::StrCat("process/", rank); }

std::string ThisProcess() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  return absl::StrCat("pid ", getpid(), " on ", host);
}

}  // namespace

std::string PeerWatch::FailedKey(int rank) { return absl::StrCat("failed/", rank); }

struct PeerWatch::State {
  const c10::intrusive_ptr<c10d::Store> store;
  const std::string server;
  const int rank;
  const int world_size;
  // Steady: a change of the wall clock does not affect it.
  const std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::atomic<int64_t> collectives = 0;

  double Age() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void WriteBeat() const {
    WriteText(*store, BeatKey(rank), absl::StrCat(Age(), " ", collectives.load()));
  }
  // A rank without a heartbeat so far: its last one counts as the start of the group.
  Beat ReadBeat(int peer) const {
    Beat beat;
    if (store->check({BeatKey(peer)})) {
      std::istringstream(ReadText(*store, BeatKey(peer))) >> beat.age >> beat.collectives;
    }
    return beat;
  }
  // "rank 1 (pid 7 on node3)"
  std::string NameOf(int peer) const {
    std::string name = absl::StrCat("rank ", peer);
    if (store->check({ProcessKey(peer)}))
      absl::StrAppend(&name, " (", ReadText(*store, ProcessKey(peer)), ")");
    return name;
  }
  std::string Lost(int peer, absl::Duration allowed) const {
    if (store->check({FailedKey(peer)}))
      return absl::StrCat(NameOf(peer), " failed: ", ReadText(*store, FailedKey(peer)));
    const double silence = Age() - ReadBeat(peer).age;
    if (absl::Seconds(silence) < allowed) return "";
    return absl::StrFormat("%s is dead or hangs: its last heartbeat is %.1f s old", NameOf(peer),
                           silence);
  }
  std::vector<std::string> AllLost() const {
    std::vector<std::string> lost;
    for (int peer = 0; peer < world_size; ++peer) {
      if (peer == rank) continue;
      if (std::string words = Lost(peer, kSilence); !words.empty())
        lost.push_back(std::move(words));
    }
    return lost;
  }
  // Live ranks that have begun fewer collectives than this one.
  std::vector<std::string> AllLate() const {
    const int64_t mine = collectives.load();
    std::vector<std::string> late;
    for (int peer = 0; peer < world_size; ++peer) {
      if (peer == rank) continue;
      const int64_t theirs = ReadBeat(peer).collectives;
      if (theirs < mine) {
        late.push_back(absl::StrCat(NameOf(peer), " is alive but late: it has begun ", theirs,
                                    " collectives, this rank ", mine));
      }
    }
    return late;
  }
  void Fail(const std::string& error) const { WriteText(*store, FailedKey(rank), error); }
  std::string Search(const std::string& error) const {
    const double deadline = Age() + absl::ToDoubleSeconds(kSearch);
    std::vector<std::string> found = AllLost();
    while (found.empty() && Age() < deadline) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      found = AllLost();
    }
    if (found.empty()) found = AllLate();
    if (found.empty()) Fail(error);
    return absl::StrJoin(found, "; ");
  }
};

// The thread that writes the heartbeats.
class PeerWatch::Heartbeat {
 public:
  explicit Heartbeat(std::shared_ptr<State> state)
      : thread_([this, state = std::move(state)] { Run(*state); }) {}
  ~Heartbeat() {
    stop_.Notify();
    thread_.join();
  }

 private:
  void Run(const State& state) {
    try {
      do state.WriteBeat();
      while (!stop_.WaitForNotificationWithTimeout(kBeat));
    } catch (const std::exception&) {
      // The store and its server are lost: the next collective or Blame() reports that.
    }
  }

  absl::Notification stop_;
  std::thread thread_;
};

PeerWatch::PeerWatch(c10::intrusive_ptr<c10d::Store> store, const std::string& server, int rank,
                     int world_size)
    : state_(new State{std::move(store), server, rank, world_size}) {
  WriteText(*state_->store, ProcessKey(rank), ThisProcess());
  heartbeat_ = std::make_unique<Heartbeat>(state_);
}
PeerWatch::~PeerWatch() = default;
PeerWatch::PeerWatch(PeerWatch&&) noexcept = default;
PeerWatch& PeerWatch::operator=(PeerWatch&&) noexcept = default;

void PeerWatch::CountCollective() { state_->collectives.fetch_add(1, std::memory_order_relaxed); }

std::string PeerWatch::Lost(int rank, absl::Duration silence) const {
  return state_->Lost(rank, silence);
}

// In a separate thread: LibTorch waits without limit for a stopped server.
std::string PeerWatch::AskStore(const std::function<std::string(const State&)>& ask) const {
  const std::string store = absl::StrCat("the rendezvous store of ", state_->server, " ");
  std::promise<std::string> promise;
  std::future<std::string> answer = promise.get_future();
  std::thread([state = state_, ask, store, promise = std::move(promise)]() mutable {
    try {
      promise.set_value(ask(*state));
    } catch (const std::exception& error) {
      promise.set_value(absl::StrCat(store, "cannot be read: ", ReasonOf(error)));
    }
  }).detach();
  if (answer.wait_for(absl::ToChronoMilliseconds(kSearch + kStorePatience)) ==
      std::future_status::ready)
    return answer.get();
  return store + "does not answer";
}

void PeerWatch::ReportFailure(const std::string& error) const {
  AskStore([error](const State& state) {
    state.Fail(error);
    return std::string();
  });
}

std::string PeerWatch::Blame(const std::string& error) const {
  return AskStore([error](const State& state) { return state.Search(error); });
}

}  // namespace ranklog::trainer
