// The way of rows from Log() to a daemon, over real sockets, with connections that break.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "ranklog/ranklog.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/client/fake_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class StreamTest : public ::testing::Test {
 protected:
  Settings MakeSettings() {
    Settings settings;
    settings.project = "test";
    settings.address = "unix:" + dir_.File("sock");
    settings.spool_dir = dir_.path();
    settings.spool_bytes = 1 << 20;
    settings.start_daemon = false;
    settings.quiet = true;
    settings.flush_interval = milliseconds(10);
    settings.metadata = false;  // the rings have what the tests write
    return settings;
  }

  // Settings whose messages go to `lines_`.
  Settings TellingSettings() {
    Settings settings = MakeSettings();
    settings.quiet = false;
    settings.run_id = "job";
    settings.finish_timeout = milliseconds(500);  // a child of this process has no gRPC
    settings.on_message = [this, parent = getpid()](Severity, const std::string& text) {
      if (getpid() != parent) _exit(77);
      const std::lock_guard<std::mutex> lock(lines_mutex_);
      lines_.push_back(text);
      throw 1;
    };
    return settings;
  }
  std::vector<std::string> Lines() {
    const std::lock_guard<std::mutex> lock(lines_mutex_);
    return lines_;
  }
  std::mutex lines_mutex_;
  std::vector<std::string> lines_;

  void ExpectSteps(int64_t count) {
    const std::vector<ReceivedRow> rows = daemon_.Rows();
    ASSERT_THAT(rows, SizeIs(count));
    for (int64_t i = 0; i < count; ++i) {
      ASSERT_EQ(rows[static_cast<size_t>(i)].step, i);
      ASSERT_EQ(rows[static_cast<size_t>(i)].seq, static_cast<uint64_t>(i + 1));
      ASSERT_EQ(rows[static_cast<size_t>(i)].values.at("loss"), static_cast<double>(i) * 0.5);
    }
    EXPECT_EQ(daemon_.error(), "");
  }

  size_t SpoolFiles() {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
      count += entry.path().extension() == ".spool";
    }
    return count;
  }

  // Rings that this process has mapped, with those whose file is removed.
  size_t MappedSpools() {
    std::set<std::string> files;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      const size_t path = line.find(dir_.path());
      if (path != std::string::npos) files.insert(line.substr(path));
    }
    return files.size();
  }

  TempDir dir_;
  FakeIngest daemon_{dir_.File("sock")};
};

TEST_F(StreamTest, RequestedStopStaysAndReachesEveryThread) {
  const auto notice = [](const std::string& key, bool over) {
    v1::Notice made;
    made.set_key(key);
    made.set_text("asked");
    made.set_over(over);
    return made;
  };
  daemon_.Start();
  daemon_.Post(notice("stopping", false));
  auto run = Init(MakeSettings());
  run.Log({{"loss", 0}});
  ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  EXPECT_FALSE(run.stop_requested());
  daemon_.Post(notice("stop", false));
  run.Log({{"loss", 0}});
  EXPECT_TRUE(WaitFor([&] { return run.stop_requested(); }));
  bool in_thread = false;
  std::thread([&] { in_thread = run.stop_requested(); }).join();
  EXPECT_TRUE(in_thread);
  daemon_.Post(notice("stop", true));
  daemon_.Stop();
  daemon_.Start();
  run.Log({{"loss", 0}});
  ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  EXPECT_TRUE(run.stop_requested());
}

// A rank that starts, or connects again, after the request.
TEST_F(StreamTest, FirstAnswerHasARequestedStop) {
  v1::Notice stop;
  stop.set_key("stop");
  daemon_.Post(stop);
  daemon_.Start();
  auto run = Init(MakeSettings());
  run.Log({{"loss", 0}});
  EXPECT_TRUE(WaitFor([&] { return run.stop_requested(); }));
  EXPECT_FALSE(ranklog::Run().stop_requested());
}

TEST_F(StreamTest, AlertReachesTheDaemon) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  AlertOptions alert;
  alert.title = "t";
  alert.level = AlertLevel::kError;
  alert.wait = seconds(3);
  EXPECT_TRUE(run.Alert(alert));
  EXPECT_TRUE(run.Alert(alert));
  alert.title.clear();
  EXPECT_FALSE(run.Alert(alert));
  EXPECT_EQ(run.stats().last_error, "Alert: the title is empty");
  ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  ASSERT_THAT(daemon_.Streams(), SizeIs(1));
  const std::vector<v1::Item> items = daemon_.Streams()[0].items;
  ASSERT_THAT(items, SizeIs(2));
  ASSERT_EQ(items[1].alert().fields_size(), 4);
  EXPECT_EQ(items[1].alert().fields(2).value().text(), "ERROR");
  EXPECT_EQ(items[1].alert().fields(3).value().integer(), 3000);
}

TEST_F(StreamTest, SmallSpoolErrorNamesSetting) {
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 10;
  auto run = Init(settings);
  run.Log({{"loss", 0}});
  ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  bool all = true;
  for (int i = 0; i < 100000 && all; ++i) all = run.Log({{"loss", i}});
  EXPECT_FALSE(all);
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_THAT(run.stats().last_error, HasSubstr("RANKLOG_SPOOL_BYTES"));
}

// A new thread may log at steps whose rows were not sent yet. If they were sent, the daemon would
// close those steps. On a busy machine, more than a second may pass and they are sent: hence
// several attempts.
TEST_F(StreamTest, RowsWaitForNewThreadsHello) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  bool waited = false;
  std::atomic<bool> over = false;
  // they live on, since a new thread would take an ended thread's ring
  std::vector<std::thread> others;
  EXPECT_TRUE(run.Log({{"loss", 1}}, 0));  // attaches
  for (int64_t step = 1; step < 6 && !waited; ++step) {
    ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
    const int attaches = daemon_.attaches();
    const size_t rows = daemon_.row_count();
    daemon_.HoldHellos(true);
    others.emplace_back([&, step] {
      run.Log({{"other", 1}}, step);
      over.wait(false);
    });
    EXPECT_TRUE(WaitFor([&] { return daemon_.attaches() == attaches + 1; }));
    run.Log({{"loss", 1}}, step);
    waited = !WaitFor([&] { return daemon_.row_count() > rows; }, absl::Milliseconds(100));
    daemon_.HoldHellos(false);
    EXPECT_TRUE(WaitFor([&] { return daemon_.row_count() == rows + 2; }));
  }
  over = true;
  over.notify_all();
  for (std::thread& other : others) other.join();
  EXPECT_TRUE(waited);
  EXPECT_EQ(daemon_.error(), "");
}

TEST_F(StreamTest, RowsArriveWithAllFields) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  const auto unix_us = [] {
    return std::chrono::duration_cast<std::chrono::microseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  const int64_t before = unix_us();
  EXPECT_TRUE(run.Log({{"loss", 0.5}, {"lr", 1}, {"note", "warm"}}, 3));
  EXPECT_TRUE(run.Log({{"loss", 0.25}}));
  EXPECT_TRUE(run.Log({{"only", "text"}, {"flag", true}}));
  const int64_t after = unix_us();
  EXPECT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);

  const std::vector<ReceivedRow> rows = daemon_.Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_THAT(rows[0].values, ElementsAre(Pair("loss", 0.5), Pair("lr", 1.0)));
  EXPECT_THAT(rows[0].texts, ElementsAre(Pair("note", "warm")));
  EXPECT_EQ(rows[0].step, 3);
  EXPECT_FALSE(rows[0].commits);
  EXPECT_EQ(rows[1].step, 3);
  EXPECT_TRUE(rows[1].commits);
  EXPECT_EQ(rows[2].step, 4);
  EXPECT_THAT(rows[2].values, IsEmpty());
  EXPECT_THAT(rows[2].texts, ElementsAre(Pair("only", "text")));
  EXPECT_THAT(rows[2].json, ElementsAre(Pair("flag", "true")));
  // in us; a few milliseconds suffice to measure the counter's rate
  constexpr int64_t kClockError = 50000;
  EXPECT_GE(rows[0].time_us, before - kClockError);
  EXPECT_LE(rows[0].time_us, after + kClockError);
  EXPECT_TRUE(run.stats().connected);
  EXPECT_EQ(run.stats().last_error, "");
  EXPECT_EQ(run.stats().rows_durable, 3u);
}

// Exceptions of the function are dropped.
TEST_F(StreamTest, MessagesGoToTheProgramsFunction) {
  daemon_.Start();
  {
    Settings telling = TellingSettings();
    telling.rank_statistics = {"los?=max"};
    auto run = Init(telling);
    EXPECT_EQ(run.stats().last_error, "") << "a hint is no mistake";
    EXPECT_TRUE(run.Log({{"loss", 0.5}}));
    EXPECT_TRUE(run.Log({{"", 0.5}}));
    EXPECT_FALSE(run.Log(RowHandle(), {}));
// TSan ends a forked child that starts a thread. Clang 14's ASan does not hold its allocator's locks
// over a fork, so the child of a process with threads may wait for one forever.
#if !defined(ABSL_HAVE_THREAD_SANITIZER) && !defined(ABSL_HAVE_ADDRESS_SANITIZER)
    const pid_t child = fork();
    if (child == 0) {
      const bool logged = run.Log({{"loss", 0.5}});
      run.Finish();
      _exit(logged ? 0 : 1);
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "a forked child says nothing";
#endif
    EXPECT_EQ(run.Finish(), FlushResult::kDurable);
    EXPECT_THAT(Lines().back(), HasSubstr("run job: "));
    EXPECT_THAT(Lines(),
                UnorderedElementsAre(HasSubstr("has a ?, which stands for itself"),
                                     HasSubstr("run job (main, 1 rank)"), HasSubstr("run job: all"),
                                     "a value was left out of its row: a key or a MetricHandle "
                                     "is empty",
                                     HasSubstr("1 row refused so far: an empty RowHandle")));
    EXPECT_THAT(Lines().back(), AllOf(HasSubstr("all 2 rows of this rank are durable; 1 row "
                                                "refused: an empty RowHandle"),
                                      HasSubstr("; 1 value left out of rows: a key or")));
  }
  Settings quiet = TellingSettings();
  quiet.quiet = true;
  auto run = Init(quiet);
  EXPECT_EQ(run.Finish(), FlushResult::kDurable);
  EXPECT_THAT(Lines(), SizeIs(5));
}

// Also not the rows of rings that the parent has dropped.
TEST_F(StreamTest, ForkedChildDoesNotCountParentsRows) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  int64_t step = 1000;
  const auto log_below_all_steps = [&] {
    std::thread([&] {
      EXPECT_TRUE(run.Config({{"step", step}}));  // takes the ring of the previous thread
      EXPECT_TRUE(run.Log({{"loss", 1}}, --step));
    }).join();
  };
  ASSERT_TRUE(WaitFor([&] {
    log_below_all_steps();
    return MappedSpools() < daemon_.Streams().size();
  })) << "no ring was dropped";
// A child of a process with threads: see MessagesGoToTheProgramsFunction.
#if !defined(ABSL_HAVE_THREAD_SANITIZER) && !defined(ABSL_HAVE_ADDRESS_SANITIZER)
  const uint64_t rows = run.stats().rows_logged;
  EXPECT_EQ(rows, static_cast<uint64_t>(1000 - step));
  const pid_t child = fork();
  if (child == 0) {
    run.Flush(milliseconds(0));  // the child notices that it is one
    _exit(run.stats().rows_logged == 0 ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(run.stats().rows_logged, rows);
#endif
}

// A daemon that has not answered cannot hold the spool of a rank that dies.
TEST_F(StreamTest, LateHelloAnswerNeedsNoFlush) {
  daemon_.HoldHellos(true);
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.flush_interval = seconds(60);
  auto run = Init(settings);
  ASSERT_TRUE(WaitFor([&] { return daemon_.attaches() == 1; }));
  std::this_thread::sleep_for(milliseconds(200));  // longer than the sender waits at once
  daemon_.HoldHellos(false);
  EXPECT_TRUE(WaitFor([&] { return run.stats().connected; }, absl::Seconds(20)));
}

TEST_F(StreamTest, RingOmitsKeySentInHello) {
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.rank = 1;
  settings.world_size = 2;
  settings.local_rank = 1;
  settings.run_id = "abc";
  settings.log_strategy = LogStrategy::kNode;
  settings.credentials["WANDB_API_KEY"] = "very-secret";
  auto run = Init(settings);
  ASSERT_TRUE(WaitFor([&] { return daemon_.attaches() == 1; }));
  const v1::Hello hello = daemon_.Streams().at(0).hello;
  EXPECT_EQ(hello.protocol(), v1::kProtocolVersion);
  EXPECT_EQ(hello.stream().job_id(), "abc");
  EXPECT_EQ(hello.stream().rank(), 1u);
  EXPECT_EQ(hello.settings().strategy(), v1::LOG_STRATEGY_NODE);
  EXPECT_EQ(hello.identity().local_rank(), 1u);
  EXPECT_EQ(hello.identity().pid(), getpid());
  EXPECT_EQ(hello.credentials().at("WANDB_API_KEY"), "very-secret");
  struct stat info;
  ASSERT_EQ(stat(hello.ring().path().c_str(), &info), 0);
  EXPECT_EQ(hello.ring().inode(), info.st_ino);
  EXPECT_EQ(hello.ring().file_bytes(), static_cast<uint64_t>(info.st_size));
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  std::string bytes(static_cast<size_t>(info.st_size), '\0');
  FILE* file = fopen(hello.ring().path().c_str(), "r");
  ASSERT_EQ(fread(bytes.data(), 1, bytes.size(), file), bytes.size());
  EXPECT_EQ(bytes.find("very-secret"), std::string::npos);
  fclose(file);
}

TEST_F(StreamTest, DeliversRowsOnceOverBrokenConnections) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  int64_t step = 0;
  for (int round = 0; round < 5; ++round) {
    daemon_.BreakAfter(2);  // the second batch is stored but never acknowledged
    const int attaches = daemon_.attaches();
    const auto broken = [&] {
      run.Log({{"loss", static_cast<double>(step) * 0.5}}, step);
      ++step;
      return daemon_.attaches() > attaches;
    };
    ASSERT_TRUE(WaitFor(broken));
  }
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  ExpectSteps(step);
  // The daemon reported its position, and the client continued from there.
  EXPECT_EQ(daemon_.duplicates(), 0u);
  EXPECT_TRUE(daemon_.Streams().at(0).finished);
}

TEST_F(StreamTest, SurvivesDaemonsThatComeAndGo) {
  auto run = Init(MakeSettings());
  int64_t step = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 500; ++i, ++step) {
      ASSERT_TRUE(run.Log({{"loss", static_cast<double>(step) * 0.5}}, step));
    }
    daemon_.Start();
    ASSERT_TRUE(WaitFor([&] { return daemon_.row_count() == static_cast<size_t>(step); }));
    daemon_.Stop();
  }
  daemon_.Start();
  EXPECT_EQ(run.Finish(3), FlushResult::kDurable);
  ExpectSteps(step);
  const ReceivedStream stream = daemon_.Streams().at(0);
  EXPECT_EQ(stream.exit_code, 3);
  EXPECT_EQ(stream.last_seq, static_cast<uint64_t>(step));
  EXPECT_EQ(SpoolFiles(), 0u);
}

TEST_F(StreamTest, AcknowledgedRingSpaceIsReused) {
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 10;
  auto run = Init(settings);
  int64_t step = 0;
  const auto logged = [&] {
    while (run.Log({{"loss", static_cast<double>(step) * 0.5}}, step)) ++step;
    return step > 20000;  // 1.1 MB through 64 KiB
  };
  ASSERT_TRUE(WaitFor(logged));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  ExpectSteps(step);
  EXPECT_GT(run.stats().lost_ring_full, 0u);
  EXPECT_GT(daemon_.Streams().at(0).losses.ring_full(), 0u);
}

TEST_F(StreamTest, FullRingRefusalTakesNoStep) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 10;
  auto run = Init(settings);
  int64_t taken = 0;
  while (run.Log({{"loss", static_cast<double>(taken) * 0.5}})) ++taken;
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(run.Log({{"loss", i}}));
  daemon_.Start();
  ASSERT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  EXPECT_TRUE(run.Log({{"loss", static_cast<double>(taken) * 0.5}}));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  ExpectSteps(taken + 1);
}

TEST_F(StreamTest, KeepsEveryShapeThroughAReconnect) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", 1}}, 0));
  EXPECT_TRUE(run.Log({{"b", 2}, {"c", 3}}, 1));
  EXPECT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);  // their records are freed
  daemon_.Stop();
  daemon_.Start();
  EXPECT_TRUE(run.Log({{"b", 4}, {"c", 5}}, 2));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_THAT(daemon_.Rows().at(2).values, ElementsAre(Pair("b", 4.0), Pair("c", 5.0)));
  EXPECT_EQ(daemon_.error(), "");
}

TEST_F(StreamTest, SendsItemsInTheirOrder) {
  auto run = Init(MakeSettings());
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(run.Config({{"n", i}}));
    EXPECT_TRUE(run.Log({{"loss", i}}, i));
  }
  EXPECT_TRUE(run.DefineMetric("loss", {.summary = {"min"}}));
  EXPECT_EQ(run.stats().updates_pending, 21u);
  daemon_.Start();
  EXPECT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
  const std::vector<v1::Item> items = daemon_.Streams().at(0).items;
  ASSERT_THAT(items, SizeIs(21));
  for (int i = 0; i < 20; ++i) {
    const v1::Item& item = items[static_cast<size_t>(i)];
    EXPECT_EQ(item.config().fields(0).value().integer(), i);
    EXPECT_EQ(item.after_row(), static_cast<uint64_t>(i));
    EXPECT_GT(item.time_us(), 0);
  }
  EXPECT_EQ(items[20].metric().name(), "loss");
  EXPECT_EQ(run.stats().updates_pending, 0u);
}

TEST_F(StreamTest, LongestFlushTimeoutWaits) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  ASSERT_TRUE(run.Log({{"loss", 0.5}}));
  EXPECT_EQ(run.Flush(milliseconds::max()), FlushResult::kDurable);
}

TEST_F(StreamTest, RareFlushesOfARunDelayNoOther) {
  daemon_.Start();
  Settings rare = MakeSettings();
  rare.flush_interval = milliseconds(60000);
  auto first = Init(rare);
  EXPECT_EQ(first.Flush(seconds(60)), FlushResult::kDurable);
  FakeIngest other_daemon(dir_.File("other"));
  other_daemon.Start();
  Settings usual = MakeSettings();
  usual.address = "unix:" + dir_.File("other");
  auto second = Init(usual);
  for (int row = 1; row <= 3; ++row) {
    ASSERT_TRUE(second.Log({{"loss", 0.5}}));
    ASSERT_TRUE(WaitFor([&] { return other_daemon.row_count() == static_cast<size_t>(row); }));
  }
}

TEST_F(StreamTest, FlushTimeoutLosesNothing) {
  daemon_.Start();
  daemon_.HoldAcks(true);
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"loss", 0}}, 0));
  EXPECT_EQ(run.Flush(milliseconds(100)), FlushResult::kSpooled);
  daemon_.HoldAcks(false);
  EXPECT_EQ(run.Flush(seconds(20)), FlushResult::kDurable);
}

TEST_F(StreamTest, FlushWithoutADaemonSleeps) {
  const auto switches = [] {
    rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_nvcsw;
  };
  auto run = Init(MakeSettings());
  ASSERT_TRUE(run.Log({{"loss", 1}}));
  const long before = switches();
  EXPECT_EQ(run.Flush(milliseconds(500)), FlushResult::kSpooled);
  // Two threads poll every 20 ms; spinning makes 10,000.
  EXPECT_LT(switches() - before, 1000);
}

TEST_F(StreamTest, FinishWithoutDaemonLeavesRing) {
  Settings settings = MakeSettings();
  settings.finish_timeout = milliseconds(100);
  auto run = Init(settings);
  EXPECT_TRUE(run.Log({{"loss", 0}}, 0));
  EXPECT_EQ(run.Finish(0), FlushResult::kSpooled);
  EXPECT_EQ(SpoolFiles(), 1u);
  EXPECT_FALSE(run.Log({{"loss", 1}}, 1));
  EXPECT_EQ(run.stats().lost_after_finish, 1u);
  // A later daemon still gets it while the process lives.
  daemon_.Start();
  EXPECT_TRUE(WaitFor([&] { return daemon_.row_count() == 1 && SpoolFiles() == 0; }));
}

TEST_F(StreamTest, DestructorDoesNotWaitAfterFinishInVain) {
  Settings settings = MakeSettings();
  settings.finish_timeout = seconds(2);
  settings.delivery_timeout = seconds(2);
  auto run = std::make_unique<ranklog::Run>(Init(settings));
  EXPECT_TRUE(run->Log({{"loss", 0}}, 0));
  EXPECT_EQ(run->Finish(0), FlushResult::kSpooled);
  const auto start = std::chrono::steady_clock::now();
  run.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, settings.finish_timeout);
}

TEST_F(StreamTest, OnlyFinishWaitsForSilentDaemon) {
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  dir_.File("sock").copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  Settings settings = MakeSettings();
  settings.finish_timeout = milliseconds(200);
  const auto start = std::chrono::steady_clock::now();
  auto run = Init(settings);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(run.Log({{"loss", i}}, i));
  // Far more than a loaded machine needs, and far less than waiting for an answer takes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(5));
  EXPECT_EQ(run.Flush(milliseconds(50)), FlushResult::kSpooled);
  EXPECT_FALSE(run.stats().connected);
  EXPECT_EQ(run.stats().rows_durable, 0u);
  EXPECT_EQ(run.stats().rows_logged, 1000u);
  const auto end = std::chrono::steady_clock::now();
  EXPECT_EQ(run.Finish(0), FlushResult::kSpooled);
  EXPECT_GE(std::chrono::steady_clock::now() - end, settings.finish_timeout);
  EXPECT_EQ(SpoolFiles(), 1u);
  close(listener);
}

TEST_F(StreamTest, LastErrorExplainsMissingDaemon) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(WaitFor([&] { return !run.stats().last_error.empty(); }));
  EXPECT_THAT(run.stats().last_error, HasSubstr("No such file"));
  EXPECT_THAT(run.stats().last_error, HasSubstr("RANKLOG_START_DAEMON (start_daemon) is off"));
  EXPECT_FALSE(run.stats().connected);
}

#ifndef ABSL_HAVE_THREAD_SANITIZER  // TSan ends a process that forks and then starts a thread
TEST_F(StreamTest, LastErrorNamesSilentDaemonProgram) {
  Settings settings = MakeSettings();
  settings.start_daemon = true;
  settings.daemon = "/bin/false";
  auto run = Init(settings);
  EXPECT_TRUE(WaitFor([&] {
    return run.stats().last_error.find("; /bin/false was started, and does not answer yet") !=
           std::string::npos;
  })) << run.stats().last_error;
}
#endif

TEST_F(StreamTest, NextThreadReusesEndedThreadsStream) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { EXPECT_TRUE(run.Log({{"thread", i}}, i)); }).join();
  }
  EXPECT_TRUE(run.Log({{"main", 1}}, 3));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_THAT(daemon_.Streams(), SizeIs(2));
  EXPECT_EQ(daemon_.row_count(), 4u);
  for (const ReceivedStream& stream : daemon_.Streams()) EXPECT_TRUE(stream.finished);
}

// Nobody closed a ring that was made after Finish() had listed the rings.
TEST_F(StreamTest, FirstRowRacingFinishIsCounted) {
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.spool_bytes = 16 << 20;  // takes a while to reserve
  size_t taken = 0;
  for (int round = 0; round < 10; ++round) {
    auto run = Init(settings);
    std::atomic<bool> logged = false, done = false;
    std::thread late([&] {
      logged = run.Log({{"late", round}});
      done = true;
    });
    while (SpoolFiles() < 2 && !done) {
    }
    EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
    late.join();
    const Stats stats = run.stats();
    EXPECT_EQ(stats.rows_logged, logged ? 1u : 0u);
    EXPECT_EQ(stats.rows_durable, stats.rows_logged);
    EXPECT_EQ(stats.lost_after_finish, logged ? 0u : 1u);
    taken += stats.rows_logged;
    ASSERT_EQ(SpoolFiles(), 0u) << "round " << round;
  }
  EXPECT_EQ(daemon_.row_count(), taken);
  for (const ReceivedStream& stream : daemon_.Streams()) EXPECT_TRUE(stream.finished);
}

// Zeros are padding of no bytes. There the sender looped at full speed, and exit() waited for it.
TEST_F(StreamTest, OverwrittenRowsAreAbandonedAndCounted) {
  auto run = Init(MakeSettings());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(run.Log({{"loss", i}}, i));
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) {
    std::fstream file(entry.path());
    file.seekp(static_cast<std::streamoff>(v1::kSpoolDataOffset) + 32 + 50 * 56);  // the 51st row
    file << std::string(64, '\0');
  }
  daemon_.Start();
  EXPECT_EQ(run.Flush(seconds(60)), FlushResult::kSpooled);
  const Stats stats = run.stats();
  EXPECT_EQ(stats.rows_durable, 50u);
  EXPECT_EQ(stats.lost_damaged, 50u);
  EXPECT_THAT(stats.last_error, HasSubstr("was overwritten"));
  EXPECT_EQ(daemon_.row_count(), 50u);
  EXPECT_EQ(run.Finish(0), FlushResult::kSpooled);
  EXPECT_EQ(SpoolFiles(), 1u);  // for the daemon
}

TEST_F(StreamTest, IdleThreadReportsItsWatermark) {
  daemon_.Start();
  auto run = Init(MakeSettings());
  std::thread([&] {
    EXPECT_TRUE(run.Log({{"eval", 1}}, 0));
  }).join();  // a second ring, idle from now on
  for (int step = 1; step <= 50; ++step) EXPECT_TRUE(run.Log({{"loss", step}}, step));
  EXPECT_TRUE(WaitFor([&] {
    for (const ReceivedStream& stream : daemon_.Streams()) {
      if (stream.rows.size() == 1 && stream.passed_step == 49) return true;
    }
    return false;
  }));
}

TEST_F(StreamTest, RowOf100000MetricsArrives) {
  daemon_.Start();
  Settings settings = MakeSettings();
  settings.spool_bytes = Settings().spool_bytes;
  settings.finish_timeout = seconds(60);
  auto run = Init(settings);
  std::vector<std::string> keys;
  std::vector<Metric> row;
  for (int i = 0; i < 100000; ++i) keys.push_back("metric/" + std::to_string(i));
  for (int i = 0; i < 100000; ++i) row.emplace_back(keys[static_cast<size_t>(i)], i);
  EXPECT_TRUE(run.Log(row, 0));
  EXPECT_TRUE(run.Log(row, 1));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  ASSERT_EQ(daemon_.error(), "");
  ASSERT_EQ(daemon_.row_count(), 2u);
  EXPECT_EQ(daemon_.Rows()[1].values.at("metric/99999"), 99999.0);
}

}  // namespace
}  // namespace ranklog::testing
