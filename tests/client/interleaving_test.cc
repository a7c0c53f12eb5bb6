// Runs the client's threads in every order of their accesses to shared data, with one unforced
// switch (two in the soak). The threads log, finish and send. See scheduler.h. The test runs the
// client's own sources, from RunState down to the ring and up to StreamProtocol. They are copies
// whose atomics and mutexes belong to the scheduler (interleaving.cmake).
//
// Tried:
//   - the last row or update against Finish(). The thread has a ring, takes the ring of an ended
//     thread, makes its first ring, or needs a larger one
//   - rows of two threads
//   - Finish() by two threads
//   - a full ring
//   - Log() in a signal handler, before any access of its thread's Log()
//
// After each order, every row that was taken is durable, every refused row is counted, no ring is
// left, and no thread waits for ever.
//
// Not tried:
//   - the sender's own loop, its locks and gRPC (a loop of this file calls the protocol like
//     RingStream)
//   - a lost connection (see simulation/)
//   - the spool's file (here it is memory)
//   - a process that dies or forks
//   - deadlines
//   - messages for the user
//   - memory that is not sequentially consistent, and so the barrier of RunState::Close()

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/launch/launch.h"
#include "client/launch/resolve.h"
#include "client/run/fork.h"
#include "client/run/log_row.h"
#include "client/run/run_state.h"
#include "client/run/thread_rings.cc"  // the copy; this file exchanges its thread_local variables
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/validate.h"
#include "client/stream/sender.h"
#include "client/stream/stream_protocol.h"
#include "tests/client/scheduler.h"
#include "tests/support/figures.h"

namespace ranklog::internal {
namespace {

constexpr size_t kRingBytes = 4096;
constexpr size_t kLargeRingBytes = 2 * kRingBytes;

// Replaces the spool's files, the sender and the process. A new one for each order.
struct World {
  int rings_made = 0;
  bool metadata = false;
  std::set<std::string> rings;  // rings that a daemon would find
  std::vector<std::pair<std::shared_ptr<RunState>, std::shared_ptr<Ring>>> new_rings;
  Mutex mutex;
};
World* world = nullptr;

struct alignas(64) RingMemory {
  std::byte bytes[v1::kSpoolDataOffset + kLargeRingBytes];
};

// Memory of rings that are gone.
std::vector<RingMemory*>& FreeMemory() {
  static auto* const memory = new std::vector<RingMemory*>;
  return *memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Spool>> Spool::Create(const Options& options, v1::Hello hello) {
  std::unique_ptr<Spool> spool(new Spool);
  spool->data_bytes_ = options.record_bytes > 0 ? kLargeRingBytes : kRingBytes;
  spool->path_ = "ring " + std::to_string(++world->rings_made);
  spool->hello_ = std::move(hello);
  world->rings.insert(spool->path_);
  if (FreeMemory().empty()) FreeMemory().push_back(new RingMemory);
  spool->header_ = new (FreeMemory().back()) v1::SpoolHeader();
  FreeMemory().pop_back();
  std::memset(spool->data(), 0xff, spool->data_bytes());
  return spool;
}

Spool::~Spool() { FreeMemory().push_back(reinterpret_cast<RingMemory*>(header_)); }

void Spool::Publish() {}

void Spool::Unlink() { world->rings.erase(path_); }

Mutex* StateMutex() { return &world->mutex; }
uint64_t Generation() { return 0; }
uint64_t MicrosSinceBoot() { return 1; }
uint64_t MostFileBytes() { return UINT64_MAX; }
void ArmForkHandlers() {}

Settings Resolve(Settings settings) {
  settings.rank = settings.local_rank = 0;
  settings.quiet = true;
  settings.metadata = world->metadata;
  return settings;
}
std::vector<std::string> RankErrors(const Settings&) { return {}; }
std::vector<std::string> RankStatisticsHints(const std::vector<std::string>&) { return {}; }
std::map<std::string, std::string> JobVariables() { return {}; }
v1::Hello MakeHello(const Settings&) { return {}; }
v1::Launch MakeLaunch(const Settings&, bool) { return {}; }
v1::RunHandle MakeHandle(const v1::Hello&) { return {}; }
absl::StatusOr<v1::RunHandle> UseHandle(const std::string&) {
  return absl::InvalidArgumentError("none");
}
Settings JoinSettings(const v1::RunHandle&, Settings own) { return own; }
void JoinHello(const v1::RunHandle&, v1::Hello*) {}
std::string EncodeHandle(const v1::RunHandle&) { return ""; }
Surroundings ReadSurroundings() { return {}; }
v1::Object MakeMetadata(const Settings&, const Surroundings&, int64_t) {
  v1::Object facts;
  facts.add_fields()->set_key("os");
  return facts;
}

Sender* Sender::Get() {
  alignas(Sender) static std::byte nothing[sizeof(Sender)];
  return reinterpret_cast<Sender*>(nothing);
}
void Sender::Add(std::shared_ptr<StreamedRun> run, std::shared_ptr<Ring> ring) {
  MutexLock lock(StateMutex());
  world->new_rings.emplace_back(std::static_pointer_cast<RunState>(std::move(run)),
                                std::move(ring));
}
void Sender::AddPrintingRun(std::shared_ptr<StreamedRun>) {}
void Sender::RunSoon(std::function<void()>) {}
void Sender::AddToFinish(const std::shared_ptr<StreamedRun>&) {}
bool Sender::SendUntil(Time, const std::function<bool()>& done) {
  while (!done()) testing::Yield();
  return true;
}
bool Sender::Await(Time time, const std::function<bool()>& done) { return SendUntil(time, done); }
void Sender::Nudge() {}
const char* Sender::Trouble() { return nullptr; }

void RunState::AwaitStaging(std::chrono::milliseconds, const Stops&) {}  // no test has uploads
void RunState::AnnounceToConsole() {}                                    // nor a console
void RunState::StopConsole() {}
void RunState::EndSaves() {}

}  // namespace ranklog::internal

namespace ranklog::internal {

std::vector<std::string> Validate(const Settings&) { return {}; }
Settings Repair(Settings settings) { return settings; }

}  // namespace ranklog::internal

namespace ranklog::testing {
namespace {

using internal::kRingBytes;
using internal::Ring;
using internal::RunState;
using internal::StreamProtocol;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const char* planted = "";

// The thread_local variables of thread_rings.cc.
struct Locals {
  internal::ThreadCache cache;
  bool is_exiting = false;
  bool finds_writer = false;
  internal::ThreadRings rings;

  void Exchange() {
    std::swap(cache, internal::thread_cache);
    std::swap(is_exiting, internal::thread_is_exiting);
    std::swap(finds_writer, internal::thread_finds_writer);
    // It is not movable, but its bytes may be swapped, since it is a vector.
    auto* const ours = reinterpret_cast<unsigned char*>(&rings);
    std::swap_ranges(ours, ours + sizeof rings,
                     reinterpret_cast<unsigned char*>(&internal::thread_rings));
  }
};

// Destroys them, as the end of a thread does.
void EndThread() {
  internal::thread_rings.~ThreadRings();
  new (&internal::thread_rings) internal::ThreadRings;
}

// One ring, and the daemon that answers each message before it receives the next one.
class Stream {
 public:
  Stream(std::shared_ptr<RunState> run, std::shared_ptr<Ring> ring)
      : run_(std::move(run)), ring_(std::move(ring)), protocol_(ring_.get()) {
    protocol_.Begin();
    v1::ServerMessage hello;
    hello.mutable_hello();
    protocol_.OnMessage(hello);
  }

  // Does one tick of RingStream. Returns false if there was nothing to do.
  bool Tick() {
    if (!error_.empty()) return false;
    bool any = TakeAnswers();
    if (protocol_.done()) return any;  // the daemon has closed it
    v1::ClientMessage message;
    if (protocol_.Next({}, /*urgent=*/true, /*open_step=*/0, &message)) {
      any = true;
      if (message.has_batch()) {
        rows_ = message.batch().last_seq();
        ack_.emplace().mutable_ack()->set_durable_seq(rows_);
      } else if (message.has_items()) {
        items_ = message.items().item().rbegin()->seq();
        ack_.emplace().mutable_ack()->set_durable_item(items_);
      }
    }
    if (protocol_.Damage() != nullptr) {
      error_ = *protocol_.Damage();
      ring_->given_up.store(true);
      return any;
    }
    if (!finish_ && protocol_.NextFinish({}, &finish_request_)) any = finish_ = true;
    return any;
  }

  const RunState* run() const { return run_.get(); }
  uint64_t rows() const { return rows_; }
  uint64_t items() const { return items_; }
  // Returns what the daemon would count as lost, or could not read.
  std::string Error() const {
    if (error_.empty() && protocol_.done() && finish_request_.last_seq() != rows_) {
      return "a row is lost: the daemon misses it at the end";
    }
    return error_;
  }

 private:
  bool TakeAnswers() {
    const bool any = ack_.has_value() || finish_;
    if (ack_) protocol_.OnMessage(*ack_);
    ack_.reset();
    if (finish_) protocol_.OnFinish({}, absl::StatusCode::kOk);
    finish_ = false;
    return any;
  }

  const std::shared_ptr<RunState> run_;
  const std::shared_ptr<Ring> ring_;
  StreamProtocol protocol_;
  std::optional<v1::ServerMessage> ack_;
  bool finish_ = false;
  v1::FinishRequest finish_request_;
  uint64_t rows_ = 0;
  uint64_t items_ = 0;
  std::string error_;
};

class InterleavingTest : public ::testing::Test {
 protected:
  // The rings that exist when a thread logs.
  enum class Start {
    kNoRing,    // none: the thread makes one
    kIdleRing,  // the idle ring of the thread that made the run and ended
    kOwnRing,   // its own: it has logged before, in a run that it or another thread made
  };

  InterleavingTest() {
    // Otherwise RunState::Close() takes the slow path.
    syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
  }
  ~InterleavingTest() override {
    EndOrder();
    planted = "";
    if (std::getenv("RANKLOG_SOAK") == nullptr) return;
    const auto* const test = ::testing::UnitTest::GetInstance()->current_test_info();
    Report(std::string(test->name()) + ": orders", all_orders_, "");
  }

  // Runs the threads that `begin` adds. Returns the error of the first wrong order, with its
  // switches; empty if no order is wrong.
  std::string FirstError(const std::function<void()>& begin, const char* bug = "") {
    planted = bug;
    Scheduler scheduler(std::getenv("RANKLOG_SOAK") == nullptr ? 1 : 2,
                        [this](size_t i) { locals_[i]->Exchange(); });
    const std::string error = scheduler.Explore(
        [&] {
          EndOrder();
          BeginOrder();
          begin();
          threads_.push_back({"sender", [this] { Send(); }});
          return threads_;
        },
        [this] { return Check(); });
    orders_ = scheduler.orders();
    all_orders_ += orders_;
    if (!error.empty()) Leak();
    return error;
  }

  void Logger(Start start, std::function<void()> body, std::function<void()> on_signal = nullptr) {
    const size_t number = start == Start::kOwnRing ? threads_.size() : kThreads - 1;
    As(number, [&] {
      if (run_ == nullptr) run_ = RunState::Create({});
      if (start == Start::kOwnRing) Log();
      if (start == Start::kIdleRing) EndThread();
    });
    Thread("logger", std::move(body), std::move(on_signal));
  }
  // Call it first: the run has metadata, which is an item.
  void WithFacts() {
    world_->metadata = true;
    ++items_;
  }
  void FactsGatherer() {
    Thread("facts", [this] { run_->GatherFacts(); });
  }
  void Finisher() {
    ++finishers_;
    Thread("finisher", [this] {
      for (const auto& run : {run_, other_run_}) {
        if (run == nullptr) continue;
        if (run->Finish(0, std::chrono::hours(1)) != FlushResult::kDurable) all_durable_ = false;
      }
      --finishers_;
      Scheduler::active()->Changed();
    });
  }

  void Log(std::string_view text = {}) { LogTo(run_, text); }
  void LogTo(const std::shared_ptr<RunState>& run, std::string_view text = {}) {
    const Metric row[] = {{"loss", 1}, {"text", text}};
    const std::span<const Metric> metrics(row, text.empty() ? 1 : 2);
    const bool taken = run->LogRow(nullptr, [&](internal::RingWriter& writer, const auto& step) {
      return writer.Write(metrics, step);
    });
    ++(taken ? taken_[run.get()] : refused_);
  }
  void Update() {
    v1::Item item;
    item.mutable_config()->add_fields()->set_key("lr");
    if (run_->AddItem(item)) ++items_;
  }

  // Cases that several tests run.
  void LastRow(Start start) {
    Logger(start, [this] { Log(); });
    Finisher();
  }
  void LastUpdate(Start start) {
    Logger(start, [this] { Update(); });
    Finisher();
  }
  void FullRing() {
    Logger(Start::kOwnRing, [this] {
      for (int i = 0; i < 5; ++i) Log(std::string(900, 't'));  // the ring has room for four
    });
    Finisher();
  }
  void SignalInLog(Start start) {
    Logger(
        start, [this] { Log(); }, [this] { Log(); });
    Finisher();
  }
  void SignalBetweenRuns() {
    const auto both = [this] {
      LogTo(run_);
      LogTo(other_run_);
    };
    As(0, [&] {
      run_ = RunState::Create({});
      other_run_ = RunState::Create({});
      both();
    });
    Logger(Start::kOwnRing, both, [this] { LogTo(other_run_); });
    Finisher();
  }

  std::shared_ptr<RunState> run_;
  std::shared_ptr<RunState> other_run_;  // may be null
  int orders_ = 0;                       // of the last FirstError()

 private:
  static constexpr size_t kThreads = 5;

  // Adds a thread that ends like a real one.
  void Thread(const std::string& name, std::function<void()> body,
              std::function<void()> on_signal = nullptr) {
    threads_.push_back({name,
                        [body = std::move(body)] {
                          body();
                          EndThread();
                        },
                        std::move(on_signal)});
  }
  void As(size_t thread, const std::function<void()>& call) {
    locals_[thread]->Exchange();
    call();
    locals_[thread]->Exchange();
  }

  void Send() {
    while (finishers_ > 0) {
      decltype(world_->new_rings) rings;
      {
        internal::MutexLock lock(internal::StateMutex());
        rings.swap(world_->new_rings);
      }
      for (auto& [run, ring] : rings) {
        streams_.push_back(std::make_unique<Stream>(std::move(run), std::move(ring)));
      }
      bool any = false;
      for (const auto& stream : streams_) any = stream->Tick() || any;
      if (!any) Yield();
    }
  }

  std::string Check() {
    std::map<const RunState*, uint64_t> rows;
    uint64_t items = 0;
    for (const auto& stream : streams_) {
      if (!stream->Error().empty()) return stream->Error();
      rows[stream->run()] += stream->rows();
      items += stream->items();
    }
    uint64_t lost = 0;
    for (const auto& run : {run_, other_run_}) {
      if (run == nullptr) continue;
      if (rows[run.get()] != taken_[run.get()]) return "a row is lost";
      const Stats stats = run->GetStats();
      lost += stats.lost_after_finish + stats.lost_ring_full + stats.lost_invalid +
              stats.lost_too_large;
    }
    if (!all_durable_) return "Finish() is not durable";
    if (items != items_) return "an item is lost";
    if (lost != refused_) return "a refused row is not counted";
    if (!world_->rings.empty()) return "a ring is left, so the run has crashed";
    return "";
  }

  void BeginOrder() {
    world_ = std::make_unique<internal::World>();
    internal::world = world_.get();
    for (auto& locals : locals_) locals = std::make_unique<Locals>();
  }
  void EndOrder() {
    for (auto& locals : locals_) locals.reset();
    internal::thread_is_exiting = false;  // it was set for `locals`
    internal::ForgetThreadRings();
    threads_.clear();
    streams_.clear();
    run_.reset();
    other_run_.reset();
    world_.reset();
    taken_.clear();
    refused_ = items_ = 0;
    finishers_ = 0;
    all_durable_ = true;
  }
  // Threads that have not ended never continue, so their objects are leaked.
  void Leak() {
    for (auto& locals : locals_) static_cast<void>(locals.release());
    for (auto& stream : streams_) static_cast<void>(stream.release());
    static_cast<void>(world_.release());
    new std::pair(std::move(run_), std::move(other_run_));
  }

  std::unique_ptr<internal::World> world_;
  std::array<std::unique_ptr<Locals>, kThreads> locals_;
  std::vector<Scheduler::Thread> threads_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::map<const RunState*, uint64_t> taken_;
  int all_orders_ = 0;
  uint64_t refused_ = 0;
  uint64_t items_ = 0;  // taken ones
  int finishers_ = 0;   // running ones
  bool all_durable_ = true;
};

TEST_F(InterleavingTest, LastRowSurvivesFinish) {
  for (const Start start : {Start::kOwnRing, Start::kIdleRing, Start::kNoRing}) {
    EXPECT_THAT(FirstError([&] { LastRow(start); }), IsEmpty());
    EXPECT_GT(orders_, 30);
  }
}

TEST_F(InterleavingTest, LastUpdateSurvivesFinish) {
  for (const Start start : {Start::kOwnRing, Start::kIdleRing, Start::kNoRing}) {
    EXPECT_THAT(FirstError([&] { LastUpdate(start); }), IsEmpty());
    EXPECT_GT(orders_, 30);
  }
}

TEST_F(InterleavingTest, RowsOfTwoThreadsSurviveFinish) {
  const auto begin = [this] {
    Logger(Start::kOwnRing, [this] { Log(); });
    Logger(Start::kNoRing, [this] { Log(); });
    Finisher();
  };
  EXPECT_THAT(FirstError(begin), IsEmpty());
  EXPECT_GT(orders_, 30);
}

TEST_F(InterleavingTest, ConcurrentFinishesLoseNoRow) {
  const auto begin = [this] {
    Logger(Start::kOwnRing, [this] { Log(); });
    Finisher();
    Finisher();
  };
  EXPECT_THAT(FirstError(begin), IsEmpty());
  EXPECT_GT(orders_, 30);
}

TEST_F(InterleavingTest, FactsAreWrittenOnce) {
  for (const Start start : {Start::kOwnRing, Start::kIdleRing, Start::kNoRing}) {
    EXPECT_THAT(FirstError([&] {
                  WithFacts();
                  Logger(start, [this] { Log(); });
                  FactsGatherer();
                  Finisher();
                }),
                IsEmpty());
    EXPECT_GT(orders_, 30);
  }
}

TEST_F(InterleavingTest, FullRingCountsRefusedRows) {
  EXPECT_THAT(FirstError([this] { FullRing(); }), IsEmpty());
  EXPECT_GT(orders_, 30);
}

TEST_F(InterleavingTest, LargerRingLosesNoRow) {
  const auto begin = [this] {
    Logger(Start::kOwnRing, [this] { Log(std::string(kRingBytes / 2, 't')); });
    Finisher();
  };
  EXPECT_THAT(FirstError(begin), IsEmpty());
  EXPECT_GT(orders_, 30);
}

TEST_F(InterleavingTest, SignalHandlerLosesNoRow) {
  for (const Start start : {Start::kOwnRing, Start::kNoRing}) {
    EXPECT_THAT(FirstError([&] { SignalInLog(start); }), IsEmpty());
    EXPECT_GT(orders_, 30);
  }
  EXPECT_THAT(FirstError([&] { SignalBetweenRuns(); }), IsEmpty());
  EXPECT_GT(orders_, 30);
}

// If a known bug is not found, the test tries too few orders or checks too little.
TEST_F(InterleavingTest, KnownBugsAreFound) {
  const auto row = [this] { LastRow(Start::kOwnRing); };
  const auto first_row = [this] { LastRow(Start::kNoRing); };
  const auto update = [this] { LastUpdate(Start::kOwnRing); };
  const auto full = [this] { FullRing(); };
  const auto signal = [this] { SignalInLog(Start::kOwnRing); };
  const auto signal_in_first = [this] { SignalInLog(Start::kNoRing); };
  const auto signal_between_runs = [this] { SignalBetweenRuns(); };
  const auto lost = HasSubstr("is lost");
  EXPECT_THAT(FirstError(row, "head_before_closing"), lost);
  EXPECT_THAT(FirstError(update, "head_before_closing"), lost);
  EXPECT_THAT(FirstError(update, "update_is_not_busy"), lost);
  EXPECT_THAT(FirstError(row, "busy_is_not_awaited"), lost);
  EXPECT_THAT(FirstError(row, "closed_before_busy"), lost);
  EXPECT_THAT(FirstError(first_row, "late_ring_is_used"), AnyOf(lost, HasSubstr("a ring is left")));
  EXPECT_THAT(FirstError(row, "head_before_record"), HasSubstr("overwritten"));
  EXPECT_THAT(FirstError(full, "tail_of_the_past"), AnyOf(lost, HasSubstr("overwritten")));
  EXPECT_THAT(FirstError(signal, "handler_is_let_in"), AnyOf(lost, HasSubstr("overwritten")));
  EXPECT_THAT(FirstError(signal_in_first, "handler_waits_for_its_thread"),
              HasSubstr("wait for one another"));
  EXPECT_THAT(FirstError(signal_between_runs, "token_before_writer"), lost);
}

}  // namespace

bool Planted(const char* bug) { return std::strcmp(bug, planted) == 0; }

}  // namespace ranklog::testing
