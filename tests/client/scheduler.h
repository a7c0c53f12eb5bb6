// Runs a few threads one at a time, in every order that departs at most a given number of times
// from the default order. In the default order, any thread begins, and each runs until it waits or
// ends; then the next thread that can run continues. This is delay-bounded search (Emmi, Qadeer and
// Rakamaric, POPL 2011).
//
// A departure is a switch to another thread. It may come before each access to an atomic or a mutex
// that another thread also uses, unless both only read it. All other orders have the same effect as
// one of these.
//
// Memory is sequentially consistent: all threads see an access at once. Reorderings by a compiler
// or a processor are not tried.
//
// The threads are fibers of one system thread. So a switch is cheap, and each order is repeatable.
// A thread_local variable must be exchanged at each switch; see `exchange_locals`.

#ifndef TESTS_CLIENT_SCHEDULER_H_
#define TESTS_CLIENT_SCHEDULER_H_

#include <ucontext.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace ranklog::testing {

class Scheduler {
 public:
  struct Thread {
    std::string name;
    std::function<void()> body;
    std::function<void()> on_signal{};  // called at most once, before any access of `body`
  };

  // Allows at most `most_switches` departures; a signal counts as one. `exchange_locals(i)`
  // exchanges the thread_local variables with those saved for thread i.
  Scheduler(int most_switches, std::function<void(size_t)> exchange_locals)
      : most_switches_(most_switches), exchange_locals_(std::move(exchange_locals)) {
    active_ = this;
  }
  ~Scheduler() { active_ = nullptr; }
  static Scheduler* active() { return active_; }  // null: none

  // For each order, calls `prepare`, runs its threads to their end, and calls `check`. Stops when
  // `check` returns an error. Returns that error and the switches that led to it; empty if no order
  // has an error.
  std::string Explore(const std::function<std::vector<Thread>()>& prepare,
                      const std::function<std::string()>& check);
  int orders() const { return orders_; }

  // For Atomic and FiberMutex below. These do nothing outside of threads.
  using SourceLocation = std::source_location;
  uint64_t NewVariable();
  void BeforeAccess(uint64_t variable, bool changes, const SourceLocation& place);
  // A place where only a signal makes a difference.
  void Fence(const SourceLocation& place);
  // Announces a change that other threads may wait for.
  void Changed();
  // For a loop that checks everything again after each call. Returns when another thread has
  // changed something since the last call.
  void Yield();
  // Returns when another thread has changed something. What this thread read before the call may be
  // outdated, so it does not count as a check for Yield().
  void Wait();

 private:
  static constexpr size_t kNone = SIZE_MAX;
  static constexpr size_t kStackBytes = 256 << 10;
  static constexpr int kMostSteps = 20'000;  // in one order

  struct Fiber {
    ucontext_t context;
    uint64_t variables = 0;  // created by it
    uint64_t changes = 0;    // made by it
    uint64_t seen = 0;       // changes by others at its last check
    bool waits = false;
    bool ended = false;
    bool may_be_interrupted = false;
  };
  struct Use {
    uint64_t threads = 0;  // one bit per thread
    bool changed = false;
    bool shared = false;  // used by more than one thread, and changed
  };
  struct Switch {
    size_t from;
    size_t to;
    SourceLocation place;
  };
  struct Choice {
    size_t chosen;
    size_t of;
  };

  static void Main();
  void Run();
  bool NextOrder();
  size_t Choose(size_t of);
  void Offer(bool to_others, const SourceLocation& place);
  void SwitchTo(size_t next, const SourceLocation& place);
  void SwitchAway(const SourceLocation& place);
  std::vector<size_t> OthersReady() const;
  std::string Trace() const;

  inline static Scheduler* active_ = nullptr;
  const int most_switches_;
  const std::function<void(size_t)> exchange_locals_;
  int orders_ = 0;

  // Results of all orders so far. A variable has the same number in each order.
  std::unordered_map<uint64_t, Use> uses_;
  std::vector<Choice> choices_;
  std::vector<std::unique_ptr<char[]>> stacks_;

  // State of the current order.
  std::vector<Thread> threads_;
  std::vector<Fiber> fibers_;
  ucontext_t main_;
  size_t running_ = kNone;
  uint64_t variables_ = 0;  // created outside of threads
  uint64_t changes_ = 0;
  size_t depth_ = 0;
  int switches_ = 0;
  int steps_ = 0;
  bool learned_ = false;  // found that another variable is shared
  std::string stuck_;     // why no thread can continue
  std::vector<Switch> trace_;
};

// Replaces std::atomic in the copies of the client's sources.
template <typename T>
class Atomic {
 public:
  using SourceLocation = Scheduler::SourceLocation;
  static constexpr bool is_always_lock_free = std::atomic<T>::is_always_lock_free;

  Atomic() : Atomic(T{}) {}
  Atomic(T value) : value_(value) {  // NOLINT: implicit, as in std::atomic
    if (Scheduler::active() != nullptr) variable_ = Scheduler::active()->NewVariable();
  }
  Atomic(const Atomic&) = delete;
  Atomic& operator=(const Atomic&) = delete;

  T load(std::memory_order = std::memory_order_seq_cst,
         const SourceLocation& place = SourceLocation::current()) const {
    Before(/*changes=*/false, place);
    return value_;
  }
  void store(T value, std::memory_order = std::memory_order_seq_cst,
             const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    StoreAtOnce(value);
  }
  // Stores without a possible switch after the previous access.
  void StoreAtOnce(T value) {
    if (std::exchange(value_, value) != value && Scheduler::active() != nullptr) {
      Scheduler::active()->Changed();
    }
  }
  T exchange(T value, std::memory_order = std::memory_order_seq_cst,
             const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    const T before = value_;
    StoreAtOnce(value);
    return before;
  }
  T fetch_add(T more, std::memory_order = std::memory_order_seq_cst,
              const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    const T before = value_;
    StoreAtOnce(static_cast<T>(before + more));
    return before;
  }
  T fetch_or(T bits, std::memory_order = std::memory_order_seq_cst,
             const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    const T before = value_;
    StoreAtOnce(static_cast<T>(before | bits));
    return before;
  }
  T fetch_and(T bits, std::memory_order = std::memory_order_seq_cst,
              const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    const T before = value_;
    StoreAtOnce(static_cast<T>(before & bits));
    return before;
  }
  bool compare_exchange_weak(T& expected, T value, std::memory_order = std::memory_order_seq_cst,
                             const SourceLocation& place = SourceLocation::current()) {
    Before(/*changes=*/true, place);
    if (value_ != expected) {
      expected = value_;
      return false;
    }
    StoreAtOnce(value);
    return true;
  }
  bool compare_exchange_strong(T& expected, T value,
                               std::memory_order order = std::memory_order_seq_cst,
                               const SourceLocation& place = SourceLocation::current()) {
    return compare_exchange_weak(expected, value, order, place);
  }
  operator T() const { return load(); }  // NOLINT: implicit, as in std::atomic
  T operator=(T value) {
    store(value);
    return value;
  }
  T operator++() { return static_cast<T>(fetch_add(1) + 1); }
  T operator--() { return static_cast<T>(fetch_add(static_cast<T>(-1)) - 1); }

 private:
  void Before(bool changes, const SourceLocation& place) const {
    if (Scheduler::active() != nullptr) {
      Scheduler::active()->BeforeAccess(variable_, changes, place);
    }
  }
  T value_;
  uint64_t variable_ = 0;
};

// Replaces std::mutex in the copies. Its protected data needs no switches, and neither does its
// release.
class FiberMutex {
 public:
  void lock(const Scheduler::SourceLocation& place = Scheduler::SourceLocation::current()) {
    bool free = false;
    while (!locked_.compare_exchange_weak(free, true, std::memory_order_acquire, place)) {
      free = false;
      Scheduler::active()->Wait();
    }
  }
  void unlock() { locked_.StoreAtOnce(false); }

 private:
  Atomic<bool> locked_ = false;
};

inline void SignalFence(
    const Scheduler::SourceLocation& place = Scheduler::SourceLocation::current()) {
  if (Scheduler::active() != nullptr) Scheduler::active()->Fence(place);
}

inline void Yield() { Scheduler::active()->Yield(); }

// Whether a known bug is active; see interleaving.cmake.
bool Planted(const char* bug);

}  // namespace ranklog::testing

#endif  // TESTS_CLIENT_SCHEDULER_H_
