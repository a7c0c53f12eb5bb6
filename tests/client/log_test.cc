// What Log() takes and refuses, and the content of the ring's file. There is no daemon.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/config.h"
#include "client/base/process.h"
#include "ranklog/ranklog.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/client/ring_file.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsNan;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class LogTest : public ::testing::Test {
 protected:
  Settings MakeSettings() {
    Settings settings;
    settings.address = "unix:" + dir_.File("sock");
    settings.spool_dir = dir_.path();
    settings.spool_bytes = 1 << 20;
    settings.start_daemon = false;
    settings.quiet = true;
    settings.metadata = false;  // the rings have what the tests write
    return settings;
  }

  // Returns the only ring.
  RingFile Ring() {
    const std::vector<std::string> paths = RingPaths(dir_.path());
    EXPECT_THAT(paths, SizeIs(1));
    RingFile ring = ReadRing(paths.at(0));
    EXPECT_EQ(ring.error, "");
    return ring;
  }

  TempDir dir_;
};

TEST_F(LogTest, RowWithoutStepClosesOpenStep) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_TRUE(run.Log({{"a", 2}}));
  EXPECT_TRUE(run.Log({{"a", 3}}, 10));
  EXPECT_TRUE(run.Log({{"b", 4}}, 10));  // merges
  EXPECT_TRUE(run.Log({{"c", 5}}));      // merges and closes
  EXPECT_TRUE(run.Log({{"a", 6}}));
  std::vector<int64_t> steps;
  std::vector<bool> commits;
  for (const FileRow& row : Ring().rows) {
    steps.push_back(row.step);
    commits.push_back(row.commits);
  }
  EXPECT_THAT(steps, ElementsAre(0, 1, 10, 10, 10, 11));
  EXPECT_THAT(commits, ElementsAre(true, true, false, false, true, true));
}

TEST_F(LogTest, RefusesAndCountsPastSteps) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", 1}}, 5));
  EXPECT_FALSE(run.Log({{"a", 1}}, 4));
  EXPECT_FALSE(run.Log({{"a", 1}}, -1));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_FALSE(run.Log({{"a", 1}}, 5));  // closed
  EXPECT_EQ(run.stats().lost_step_behind, 3u);
  EXPECT_EQ(run.stats().rows_logged, 2u);
  EXPECT_EQ(run.stats().last_error, "a step is below the last one of its thread");
}

TEST_F(LogTest, StepsGrowPerThread) {
  auto run = Init(MakeSettings());
  for (int64_t step = 0; step < 100; ++step) EXPECT_TRUE(run.Log({{"a", 1}}, step));
  std::thread([&] {
    for (int64_t step = 0; step < 200; ++step) EXPECT_TRUE(run.Log({{"b", 1}}, step));
    EXPECT_FALSE(run.Log({{"b", 1}}, 198));
  }).join();
  EXPECT_TRUE(run.Log({{"a", 1}}, 100));
  EXPECT_FALSE(run.Log({{"a", 1}}, 99));
  EXPECT_EQ(run.stats().lost_step_behind, 2u);
}

// The threads run one after the other, and each logs the same steps. A thread has its own steps,
// whichever thread had its ring before.
TEST_F(LogTest, NewThreadHasItsOwnSteps) {
  auto run = Init(MakeSettings());
  for (int i = 0; i < 5; ++i) {
    std::thread([&] {
      EXPECT_TRUE(run.Config({{"thread", i}}));  // takes the ring of the previous thread
      for (int64_t step = 0; step < 10; ++step) EXPECT_TRUE(run.Log({{"a", 1}}, step)) << i;
      EXPECT_FALSE(run.Log({{"a", 1}}, 8)) << "its own last step is 9";
    }).join();
  }
  EXPECT_EQ(run.stats().lost_step_behind, 5u);
  EXPECT_EQ(run.stats().rows_logged, 50u);
  const size_t rings = RingPaths(dir_.path()).size();
  std::thread([&] { EXPECT_TRUE(run.Log({{"a", 1}}, 9)); }).join();  // no ring has a later row
  EXPECT_THAT(RingPaths(dir_.path()), SizeIs(rings));
}

// Its stream reports the end of the process, and of the run's delivery.
TEST_F(LogTest, FirstRingOutlivesItsThread) {
  ranklog::Run run;
  std::thread([&] { run = Init(MakeSettings()); }).join();
  for (int i = 0; i < 4; ++i) {
    std::thread([&] {
      EXPECT_TRUE(run.Config({{"thread", i}}));
      EXPECT_TRUE(run.Log({{"a", 1}}, 1));
    }).join();
    std::thread([&] {
      EXPECT_TRUE(run.Config({{"thread", i}}));
      EXPECT_TRUE(run.Log({{"a", 1}}, 0));  // in its own ring
    }).join();
  }
  size_t ended = 0;
  for (const std::string& path : RingPaths(dir_.path())) {
    const RingFile ring = ReadRing(path);
    ended += ring.finished;
    EXPECT_FALSE(ring.finished && ring.hello.identity().thread() == 0);
  }
  EXPECT_GT(ended, 0u) << "else nothing was tried";
}

// The destructor of an object that is older than the thread's first row runs after the thread has
// returned its ring.
TEST_F(LogTest, RingsOfLateDestructorsAreReused) {
  struct Late {
    class Run* run = nullptr;
    int64_t step = 0;
    ~Late() {
      EXPECT_TRUE(run->Log({{"late", 1}}, step));
      EXPECT_TRUE(run->Log({{"late", 2}}, step + 1));
    }
  };
  auto run = Init(MakeSettings());
  for (int64_t step = 0; step < 30; step += 3) {
    std::thread([&] {
      static thread_local Late late;
      late.run = &run;
      late.step = step + 1;
      EXPECT_TRUE(run.Log({{"a", 1}}, step));
    }).join();
  }
  EXPECT_EQ(run.stats().rows_logged, 30u);
  EXPECT_THAT(RingPaths(dir_.path()), SizeIs(2)) << "the main thread's, and one for all others";
}

// A row without a step comes after the rows of all threads.
TEST_F(LogTest, ThreadsShareTheOpenStep) {
  auto run = Init(MakeSettings());
  std::thread([&] { EXPECT_TRUE(run.Log({{"a", 1}}, 7)); }).join();
  EXPECT_TRUE(run.Log({{"b", 1}}));  // in this thread's ring, which has none of the other's rows
  EXPECT_TRUE(run.Log({{"b", 1}}));
  std::vector<int64_t> steps;
  for (const std::string& path : RingPaths(dir_.path())) {
    for (const FileRow& row : ReadRing(path).rows) steps.push_back(row.step);
  }
  EXPECT_THAT(steps, UnorderedElementsAre(7, 7, 8));
}

TEST_F(LogTest, RowWithoutStepClosesItsStep) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", 1}}, 4));
  EXPECT_TRUE(run.Log({{"b", 1}}, 4));
  EXPECT_TRUE(run.Log({{"c", 1}}));
  EXPECT_FALSE(run.Log({{"d", 1}}, 4));
  EXPECT_EQ(run.stats().lost_step_behind, 1u);
  EXPECT_TRUE(run.Log({{"d", 1}}, 5));
  std::vector<int64_t> steps;
  for (const FileRow& row : Ring().rows) steps.push_back(row.step);
  EXPECT_THAT(steps, ElementsAre(4, 4, 4, 5));
}

TEST_F(LogTest, LeavesOutValuesThatCannotBeLogged) {
  auto run = Init(MakeSettings());
  uint64_t left_out = 0;
  const auto expect = [&](const Metric& metric, const char* reason) {
    EXPECT_TRUE(run.Log({{"loss", 1.5}, metric, {"note", "kept"}}));
    EXPECT_THAT(run.stats().last_error, HasSubstr(reason));
    EXPECT_EQ(run.stats().lost_values, ++left_out);
    const FileRow row = Ring().rows.back();
    EXPECT_THAT(row.values, ElementsAre(Pair("loss", 1.5)));
    EXPECT_THAT(row.texts, ElementsAre(Pair("note", "kept")));
    EXPECT_THAT(row.json, IsEmpty());
  };
  const std::string long_key(1025, 'k');
  expect({"", 1}, "empty");
  expect({"\xff", 1}, "UTF-8");
  expect({long_key, 1}, "1024");
  for (const char* key : {"_step", "_timestamp", "_runtime", "_wandb"}) {
    expect({key, 1}, "reserved");
    expect({key, "text"}, "reserved");
    expect({key, true}, "reserved");
  }
  expect({"t", "\xc3"}, "the value of t has a text that is not UTF-8");
  const Value text = Value::Object({{"a", Value::List({"\xc3"})}});
  expect({"t", text}, "the value of t has a text that is not UTF-8");
  const Value key = Value::Object({{"\xc3", 1}});
  expect({"t", key}, "the value of t has a key that is not UTF-8");
  Value deep;
  for (int i = 0; i <= kMaxValueDepth; ++i) deep = Value::List({deep});
  expect({"t", deep}, "the value of t has more than 32 levels");
  EXPECT_EQ(run.stats().lost_invalid, 0u);
  EXPECT_EQ(run.stats().rows_logged, left_out);
  EXPECT_EQ(Ring().lost_values, left_out);
}

TEST_F(LogTest, TakesEveryOtherKey) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{std::string(1024, 'k'), 1}, {"größe/日本", 2}, {"_custom", 3}}));
  EXPECT_EQ(Ring().rows.at(0).values.at(1).first, "größe/日本");
  EXPECT_EQ(Ring().rows.at(0).values.at(2).first, "_custom");
  EXPECT_EQ(run.stats().lost_values, 0u);
}

TEST_F(LogTest, RowWithoutValidValuesHasNoMetrics) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"", 1}, {"_step", "text"}}, 5));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(2));
  EXPECT_THAT(ring.rows[0].values, IsEmpty());
  EXPECT_THAT(ring.rows[0].texts, IsEmpty());
  EXPECT_EQ(ring.rows[1].step, 5);
  EXPECT_EQ(run.stats().lost_values, 2u);
}

TEST_F(LogTest, ValuesKeepTheirTypes) {
  auto run = Init(MakeSettings());
  const int64_t exact = int64_t{1} << 53;
  EXPECT_TRUE(run.Log({{"true", true},
                       {"false", false},
                       {"int", exact},
                       {"negative int", -exact},
                       {"size", size_t{3}},
                       {"float", 1.5f},
                       {"large", exact + 1},
                       {"negative", std::numeric_limits<int64_t>::min()},
                       {"unsigned", std::numeric_limits<uint64_t>::max()},
                       {"null", Value()},
                       {"list", Value::List({1, 2.5, true, "a\"\n", Value()})},
                       {"number in a value", Value(0.1)},
                       {"text in a value", Value("text")},
                       {"bool in a value", Value(true)}}));
  const FileRow row = Ring().rows.at(0);
  EXPECT_THAT(row.values,
              ElementsAre(Pair("int", 0x1p53), Pair("negative int", -0x1p53), Pair("size", 3),
                          Pair("float", 1.5), Pair("number in a value", 0.1)));
  EXPECT_THAT(row.texts, ElementsAre(Pair("text in a value", "text")));
  EXPECT_THAT(row.json,
              UnorderedElementsAre(Pair("true", "true"), Pair("false", "false"),
                                   Pair("large", "9007199254740993"),
                                   Pair("negative", "-9223372036854775808"),
                                   Pair("unsigned", "18446744073709551615"), Pair("null", "null"),
                                   Pair("list", R"([1,2.5,true,"a\"\u000a",null])"),
                                   Pair("bool in a value", "true")));
}

TEST_F(LogTest, ObjectsAreJson) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(
      run.Log({{"nest", Value::Object({{"a", 1},
                                       {"b", Value::Object({{"nan", NAN}, {"up", INFINITY}})},
                                       {"a", -INFINITY},
                                       {"tenth", 0.1},
                                       {"third", 1.0 / 3},
                                       {"huge", 1e300},
                                       {"", std::numeric_limits<uint64_t>::max()}})}}));
  EXPECT_EQ(Ring().rows.at(0).json.at("nest"),
            R"({"b":{"nan":NaN,"up":Infinity},"a":-Infinity,"tenth":0.1,)"
            R"("third":0.3333333333333333,"huge":1e+300,"":18446744073709551615})");
}

TEST_F(LogTest, LastOfAllTypesWins) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", true}, {"a", "text"}, {"b", 1}, {"b", Value()}}));
  const FileRow row = Ring().rows.at(0);
  EXPECT_THAT(row.values, IsEmpty());
  EXPECT_THAT(row.texts, ElementsAre(Pair("a", "text")));
  EXPECT_THAT(row.json, ElementsAre(Pair("b", "null")));
}

TEST_F(LogTest, RefusedRowKeepsOpenStep) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 10;
  auto run = Init(settings);
  const RowHandle none;
  EXPECT_FALSE(run.Log(none, {}));
  EXPECT_FALSE(run.Log(none, {}, 7));
  const std::string text(20'000, 'x');
  EXPECT_FALSE(run.Log({{"text", text}, {"other", text}}));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_FALSE(run.Log(none, {}, 1));
  EXPECT_FALSE(run.Log({{"new", 1}}, 0));  // that step is closed
  EXPECT_TRUE(run.Log({{"a", 2}}, 1));
  EXPECT_TRUE(run.Log({{"a", 3}}));
  std::vector<int64_t> steps;
  for (const FileRow& row : Ring().rows) steps.push_back(row.step);
  EXPECT_THAT(steps, ElementsAre(0, 1, 1));
  EXPECT_EQ(run.stats().lost_invalid, 3u);
  EXPECT_EQ(run.stats().lost_too_large, 1u);
  EXPECT_EQ(run.stats().lost_step_behind, 1u);
}

TEST_F(LogTest, LastValueOfDuplicateKeyWins) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", 1}, {"b", 2}, {"a", 3}}));
  EXPECT_THAT(Ring().rows.at(0).values, ElementsAre(Pair("b", 2.0), Pair("a", 3.0)));
}

TEST_F(LogTest, KeepsNanAndInfinities) {
  auto run = Init(MakeSettings());
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(run.Log({{"a", std::nan("")}, {"b", inf}, {"c", -inf}}));
  const RingFile ring = Ring();
  EXPECT_THAT(ring.rows.at(0).values.at(0).second, IsNan());
  EXPECT_EQ(ring.rows.at(0).values.at(1).second, inf);
  EXPECT_EQ(ring.rows.at(0).values.at(2).second, -inf);
}

TEST_F(LogTest, EmptyRowCountsAndTakesStep) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log(Span<const Metric>()));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_TRUE(run.Log(Span<const HandleValue>(), 5));
  EXPECT_FALSE(run.Log(Span<const Metric>(), 4));
  EXPECT_TRUE(run.Log({{"a", 2}}));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(4));
  EXPECT_THAT(ring.rows[0].values, IsEmpty());
  EXPECT_TRUE(ring.rows[0].commits);
  EXPECT_EQ(ring.rows[1].step, 1);
  EXPECT_THAT(ring.rows[2].values, IsEmpty());
  EXPECT_EQ(ring.rows[2].step, 5);
  EXPECT_FALSE(ring.rows[2].commits);
  EXPECT_EQ(ring.rows[3].step, 5);
  EXPECT_EQ(run.stats().rows_logged, 4u);
  EXPECT_EQ(run.stats().lost_step_behind, 1u);
}

TEST_F(LogTest, HandlesWriteTheSameRows) {
  auto run = Init(MakeSettings());
  const MetricHandle loss = run.MetricKey("loss"), rate = run.MetricKey("lr");
  const RowHandle both = run.Row({"loss", "lr"});
  for (int i = 0; i < 3; ++i) {
    const HandleValue values[] = {{loss, i + 0.5}, {rate, 2}};
    EXPECT_TRUE(run.Log(values, i));
    const double numbers[] = {i + 0.5, 2};
    EXPECT_TRUE(run.Log(both, numbers, i));
    EXPECT_TRUE(run.Log({{"loss", i + 0.5}, {"lr", 2}}, i));
  }
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(9));
  for (const FileRow& row : ring.rows) {
    EXPECT_THAT(row.values,
                ElementsAre(Pair("loss", static_cast<double>(row.step) + 0.5), Pair("lr", 2.0)));
  }
}

// A thread that holds the run's lock may be descheduled. That must not stop the training step.
TEST_F(LogTest, LogNeverWaitsForALock) {
  auto run = Init(MakeSettings());
  const RowHandle both = run.Row({"loss", "lr"});
  const HandleValue handles[] = {{run.MetricKey("loss"), 0.5}, {run.MetricKey("lr"), 2}};
  const double numbers[] = {0.5, 2};
  const auto log_all = [&](int i) {
    bool all = run.Log({{"a", i}});
    if (i % 2 == 0) all = run.Log(handles) && all;
    if (i % 3 == 0) all = run.Log(both, numbers) && all;
    if (i % 5 == 0) all = run.Log({{"a", i}, {"note", "text"}}) && all;
    return all;
  };
  std::atomic<bool> learned = false, held = false, done = false;
  std::thread trainer([&] {
    for (int i = 0; i < 31; ++i) EXPECT_TRUE(log_all(i));
    learned = true;
    while (!held) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) EXPECT_TRUE(log_all(i));
    done = true;
  });
  EXPECT_TRUE(WaitFor([&] { return learned.load(); }));
  {
    internal::MutexLock lock(internal::StateMutex());
    held = true;
    EXPECT_TRUE(WaitFor([&] { return done.load(); }));
  }
  trainer.join();
}

TEST_F(LogTest, RefusesHandlesThatReferToNothing) {
  auto run = Init(MakeSettings());
  EXPECT_FALSE(run.Log(RowHandle(), Span<const double>()));
  EXPECT_FALSE(run.Log(run.Row(Span<const std::string_view>()), Span<const double>()));
  const double one[] = {1};
  EXPECT_FALSE(run.Log(run.Row({"a", "b"}), one));
  EXPECT_FALSE(run.Log(run.Row({"a", "a"}), one));
  EXPECT_FALSE(run.Log(run.Row({"a", "_step"}), one));
  EXPECT_EQ(run.stats().lost_invalid, 5u);
}

TEST_F(LogTest, HandlesLeaveOutKeysThatCannotBeLogged) {
  auto run = Init(MakeSettings());
  const MetricHandle none = run.MetricKey("_step");
  EXPECT_THAT(run.stats().last_error, HasSubstr("_step is reserved"));
  const RowHandle row = run.Row({"", "a", "_wandb", "b", "a"});
  EXPECT_THAT(run.stats().last_error, HasSubstr("_wandb is reserved"));
  const HandleValue by_metric[] = {{run.MetricKey("a"), 1}, {none, 2}, {run.MetricKey("b"), 3}};
  const double by_row[] = {1, 2, 3, 4, 5};
  for (int i = 0; i < 2; ++i) {  // the second time with known shapes
    EXPECT_TRUE(run.Log(by_metric));
    EXPECT_TRUE(run.Log(row, by_row));
  }
  EXPECT_EQ(run.stats().lost_values, 6u);
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(4));
  for (size_t i : {0u, 2u}) {
    EXPECT_THAT(ring.rows[i].values, ElementsAre(Pair("a", 1), Pair("b", 3)));
    EXPECT_THAT(ring.rows[i + 1].values, ElementsAre(Pair("b", 4), Pair("a", 5)));
  }
  const double one[] = {1};
  EXPECT_TRUE(run.Log(run.Row({"_step"}), one));
  EXPECT_THAT(Ring().rows.back().values, IsEmpty());
}

TEST_F(LogTest, LeavesOutTextOverHalfTheRing) {
  Settings settings = MakeSettings();
  settings.spool_bytes = Settings().spool_bytes;
  auto run = Init(settings);
  const std::string text(25 << 20, 'x');
  EXPECT_TRUE(run.Log({{"a", 1}, {"text", text}, {"flag", true}}));
  EXPECT_EQ(run.stats().lost_values, 1u);
  EXPECT_EQ(run.stats().lost_too_large, 0u);
  EXPECT_THAT(run.stats().last_error,
              HasSubstr("the value of text has 26214400 bytes, more than half of the spool"));
  const FileRow row = Ring().rows.at(0);
  EXPECT_THAT(row.values, ElementsAre(Pair("a", 1)));
  EXPECT_THAT(row.texts, IsEmpty());
  EXPECT_THAT(row.json, SizeIs(1));
}

TEST_F(LogTest, RefusesRowOverHalfTheRing) {
  Settings settings = MakeSettings();
  settings.spool_bytes = Settings().spool_bytes;
  auto run = Init(settings);
  const std::string text(3 << 20, 'x');
  EXPECT_FALSE(run.Log({{"a", 1}, {"text", text}, {"other", text}}));
  EXPECT_EQ(run.stats().lost_too_large, 1u);
  EXPECT_EQ(run.stats().lost_values, 0u);
  EXPECT_THAT(run.stats().last_error, HasSubstr("half of the spool"));
  EXPECT_TRUE(run.Log({{"a", 1}}));
}

// A later thread's ring is a sixteenth of the first one's, and refused rows that the first one
// takes.
TEST_F(LogTest, LaterThreadTakesEquallyLargeRows) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 8 << 20;
  auto run = Init(settings);
  const std::string text(3 << 20, 'x');
  EXPECT_TRUE(run.Log({{"text", text}}));
  std::thread([&] {
    EXPECT_TRUE(run.Log({{"a", 1}}, 5));
    EXPECT_FALSE(run.Log({{"text", text}}, 4));  // its steps also grow in the larger ring
    EXPECT_TRUE(run.Log({{"a", 2}, {"text", text}}, 5));
    EXPECT_TRUE(run.Log({{"a", 3}}, 6));
    EXPECT_FALSE(run.Log({{"a", 4}}, 5));
    EXPECT_FALSE(run.Log({{"a", 5}, {"text", text}, {"other", text}}));
  }).join();
  EXPECT_EQ(run.stats().lost_too_large, 1u);
  EXPECT_EQ(run.stats().lost_step_behind, 2u);
  // The next threads get the rings of the ended one.
  for (int i = 0; i < 3; ++i) {
    std::thread([&] { EXPECT_TRUE(run.Summary({{"text", std::string(1 << 20, 'x')}})); }).join();
  }
  std::vector<std::string> sizes;
  size_t rows = 0;
  for (const std::string& path : RingPaths(dir_.path())) {
    const RingFile ring = ReadRing(path);
    EXPECT_EQ(ring.error, "");
    rows += ring.rows.size();
    sizes.push_back(std::to_string(ring.hello.ring().file_bytes() >> 10) + " KiB");
  }
  EXPECT_EQ(rows, 4u);
  EXPECT_THAT(sizes, UnorderedElementsAre("8260 KiB", "580 KiB", "8260 KiB"));
}

TEST_F(LogTest, LargeRingTakes25MegabyteRow) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 20;
  auto run = Init(settings);
  const std::string text(25 << 20, 'x');
  EXPECT_TRUE(run.Log({{"text", text}}));
  EXPECT_EQ(Ring().rows.at(0).texts.at("text"), text);
}

TEST_F(LogTest, RefusesShapesOverStreamLimit) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 8 << 20;
  auto run = Init(settings);
  for (uint32_t i = 0; i < v1::kMaxShapes; ++i) {
    ASSERT_TRUE(run.Log({{"loss_at_" + std::to_string(i), 1}}));
  }
  EXPECT_FALSE(run.Log({{"one more", 1}}));
  EXPECT_EQ(run.stats().lost_invalid, 1u);
  EXPECT_THAT(run.stats().last_error, HasSubstr("more than 10000 different lists of keys"));
  EXPECT_TRUE(run.Log({{"loss_at_7", 1}}));  // known keys continue to work
  EXPECT_TRUE(run.Log({{"text", "without a number"}}));
}

TEST_F(LogTest, RefusesKeyBytesOverStreamLimit) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 20;
  auto run = Init(settings);
  int made = 0;
  const auto log_keys = [&](size_t count) {  // of one kilobyte each, all different
    std::vector<std::string> keys(count, std::string(1000, 'k'));
    for (std::string& key : keys) key += std::to_string(++made);
    const std::vector<std::string_view> list(keys.begin(), keys.end());
    return run.Log(run.Row(list), std::vector<double>(count), 0);
  };
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(log_keys(1000)) << run.stats().last_error;
  EXPECT_FALSE(log_keys(7000));
  EXPECT_EQ(run.stats().lost_invalid, 1u);
  EXPECT_THAT(run.stats().last_error, HasSubstr("take more than 64 MiB"));
  EXPECT_TRUE(run.Log({{"a list that is small", 1}}));
}

TEST_F(LogTest, RefusesNumbersOverShapeLimit) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 20;
  auto run = Init(settings);
  const std::vector<Metric> row(v1::kMaxShapeKeys + 1, Metric("a", 1));
  EXPECT_FALSE(run.Log(row));
  EXPECT_EQ(run.stats().lost_invalid, 1u);
  EXPECT_THAT(run.stats().last_error, HasSubstr("at most 1000000"));
}

TEST_F(LogTest, FullRingRefusesAndCountsRows) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 64 << 10;
  auto run = Init(settings);
  uint64_t taken = 0;
  for (int i = 0; i < 5000; ++i) taken += run.Log({{"a", i}, {"b", 1}});
  EXPECT_GT(taken, 900u);
  EXPECT_EQ(run.stats().lost_ring_full, 5000 - taken);
  EXPECT_THAT(run.stats().last_error, HasSubstr("spool is full: no daemon accepts rows"));
  EXPECT_THAT(Ring().rows, SizeIs(taken));
}

TEST_F(LogTest, ConfigSummaryAndMetricsAreUpdates) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Config({{"lr", 0.5}, {"model", Value::Object({{"layers", 12}})}}));
  EXPECT_TRUE(run.Summary({{"best", Value::List({1, "two", true, Value()})}}));
  EXPECT_TRUE(run.DefineMetric("train/*", {.step_metric = "_step", .goal = "minimize"}));
  EXPECT_FALSE(run.DefineMetric("", {}));
  EXPECT_FALSE(run.DefineMetric("a", {.goal = "sideways"}));
  EXPECT_FALSE(run.Config({{"\xff", 1}}));
  Value deep;
  for (int i = 0; i < 40; ++i) deep = Value::List({deep});
  EXPECT_FALSE(run.Config({{"deep", deep}}));
  EXPECT_THAT(run.stats().last_error, HasSubstr("levels"));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.items, SizeIs(3));
  EXPECT_EQ(ring.items[0].config().fields(1).value().object().fields(0).value().integer(), 12);
  EXPECT_EQ(ring.items[1].summary().fields(0).value().list().values(1).text(), "two");
  EXPECT_EQ(ring.items[2].metric().name(), "train/*");
  EXPECT_EQ(run.stats().updates_pending, 3u);
  EXPECT_EQ(run.stats().updates_refused, 4u);
}

TEST_F(LogTest, LargeItemGetsALargerRing) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Config({{"n", 1}}));
  EXPECT_TRUE(run.Log({{"loss", 1}}, 1));
  EXPECT_TRUE(run.Config({{"text", std::string(10000000, 'x')}}));
  EXPECT_TRUE(run.Log({{"loss", 2}}, 2));
  EXPECT_FALSE(run.Config({{"text", std::string(40000000, 'x')}}));
  EXPECT_THAT(run.stats().last_error, HasSubstr("at most 32 MiB"));
  EXPECT_EQ(run.stats().updates_refused, 1u);
  std::vector<std::string> items;
  for (const std::string& path : RingPaths(dir_.path())) {
    const RingFile ring = ReadRing(path);
    EXPECT_EQ(ring.error, "");
    EXPECT_THAT(ring.rows, SizeIs(1));
    ASSERT_THAT(ring.items, SizeIs(1));
    items.push_back(ring.items[0].config().fields(0).key());
  }
  EXPECT_THAT(items, UnorderedElementsAre("n", "text"));
}

TEST_F(LogTest, NullTextBecomesEmpty) {
  auto run = Init(MakeSettings());
  const char* const unset = nullptr;
  EXPECT_TRUE(run.Log({{"loss", 1}, {"note", unset}}));
  EXPECT_TRUE(run.Log({{"loss", 1}, {"note", std::string_view()}}));
  EXPECT_TRUE(run.Config({{"note", unset}, {"list", Value::List({unset, std::string_view()})}}));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(2));
  for (const FileRow& row : ring.rows) EXPECT_THAT(row.texts, ElementsAre(Pair("note", "")));
  const v1::Object& config = ring.items.at(0).config();
  EXPECT_EQ(config.fields(0).value().kind_case(), v1::Value::kText);
  EXPECT_EQ(config.fields(0).value().text(), "");
  EXPECT_EQ(config.fields(1).value().list().values(0).kind_case(), v1::Value::kText);
}

TEST_F(LogTest, IntegersKeepTheirSignAndSize) {
  constexpr auto kMost = std::numeric_limits<uint64_t>::max();
  constexpr auto kMostSigned = std::numeric_limits<int64_t>::max();
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Config({{"seed", kMost},
                          {"half", uint64_t{1} << 63},
                          {"fits", static_cast<uint64_t>(kMostSigned)},
                          {"least", std::numeric_limits<int64_t>::min()},
                          {"small", static_cast<int8_t>(-1)}}));
  const RingFile ring = Ring();
  const auto value = [&](int i) { return ring.items.at(0).config().fields(i).value(); };
  EXPECT_EQ(value(0).unsigned_integer(), kMost);
  EXPECT_EQ(value(1).unsigned_integer(), uint64_t{1} << 63);
  EXPECT_EQ(value(2).integer(), kMostSigned);
  EXPECT_EQ(value(3).integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(value(4).integer(), -1);
}

TEST_F(LogTest, LastOfNumberAndTextWins) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Log({{"a", "text"}, {"b", 1}, {"a", 2}}));
  EXPECT_TRUE(run.Log({{"a", 2}, {"b", 1}, {"a", "text"}, {"b", "text"}}));
  EXPECT_TRUE(run.Log({{"a", "text"}, {"a", "last"}}));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(3));
  EXPECT_THAT(ring.rows[0].values, ElementsAre(Pair("b", 1), Pair("a", 2)));
  EXPECT_THAT(ring.rows[0].texts, IsEmpty());
  EXPECT_THAT(ring.rows[1].values, IsEmpty());
  EXPECT_THAT(ring.rows[1].texts, SizeIs(2));
  EXPECT_THAT(ring.rows[2].texts, SizeIs(1));
}

// If a row has many keys, sorting finds duplicates.
TEST_F(LogTest, LastOfManyDuplicateTextsWins) {
  Settings settings = MakeSettings();
  settings.spool_bytes = 16 << 20;
  auto run = Init(settings);
  std::vector<std::string> keys;
  for (size_t i = 0; i < 10'000; ++i) keys.push_back("text/" + std::to_string(100'000 - i));
  std::vector<Metric> row;
  for (const std::string& key : keys) row.emplace_back(key, "word");
  row.emplace_back(keys[5'000], "last");
  EXPECT_TRUE(run.Log(row));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.rows, SizeIs(1));
  EXPECT_THAT(ring.rows[0].texts, SizeIs(10'000));
  EXPECT_EQ(ring.rows[0].texts.at(keys[5'000]), "last");
}

TEST_F(LogTest, SummaryUpdateHasItsStep) {
  auto run = Init(MakeSettings());
  EXPECT_TRUE(run.Summary({{"best", 1}}));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_TRUE(run.Summary({{"best", 2}}));
  EXPECT_TRUE(run.Log({{"a", 1}}, 5));
  EXPECT_TRUE(run.Summary({{"best", 3}}));
  EXPECT_TRUE(run.Config({{"lr", 1}}));
  const RingFile ring = Ring();
  ASSERT_THAT(ring.items, SizeIs(4));
  EXPECT_EQ(ring.items[0].before_step(), 0);
  EXPECT_EQ(ring.items[1].before_step(), 1);
  EXPECT_EQ(ring.items[2].before_step(), 6);
  EXPECT_FALSE(ring.items[3].has_before_step());
}

TEST_F(LogTest, InvalidSettingsLoseNoRow) {
  Settings settings = MakeSettings();
  settings.rank = 2;
  settings.world_size = 2;
  settings.resume = "maybe";
  auto run = Init(settings);
  EXPECT_THAT(run.stats().last_error, HasSubstr("Init() uses rank 2 of 3"));
  EXPECT_THAT(run.stats().last_error, HasSubstr("resume"));
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_EQ(run.stats().lost_invalid, 0u);
  EXPECT_EQ(*run.settings().rank, 2);
  EXPECT_THAT(Ring().rows, SizeIs(1));
}

TEST_F(LogTest, DisabledRunAcceptsAndDropsRows) {
  Settings settings = MakeSettings();
  settings.disabled = true;
  auto run = Init(settings);
  EXPECT_TRUE(run.Log({{"a", 1}}));
  EXPECT_TRUE(run.Config({{"a", 1}}));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_THAT(RingPaths(dir_.path()), IsEmpty());
}

TEST_F(LogTest, EmptyRunRefusesRows) {
  class Run run;
  EXPECT_FALSE(run.Log({{"a", 1}}));
  EXPECT_FALSE(run.Config({{"a", 1}}));
  EXPECT_EQ(run.Finish(0), FlushResult::kDurable);
  EXPECT_EQ(run.settings().project, "");
}

TEST_F(LogTest, TheDestructorEndsTheRun) {
  { auto run = Init(MakeSettings()); }
  EXPECT_TRUE(Ring().finished);
  EXPECT_TRUE(Ring().by_destructor);
  EXPECT_EQ(Ring().exit_code, 0);
}

TEST_F(LogTest, ExceptionEndsRunAsFailed) {
  try {
    auto run = Init(MakeSettings());
    throw std::runtime_error("out of memory on the device");
  } catch (const std::runtime_error&) {
  }
  EXPECT_TRUE(Ring().finished);
  EXPECT_EQ(Ring().exit_code, 1);
}

// TSan starts no thread in the child of a process with threads.
#if !defined(ABSL_HAVE_THREAD_SANITIZER)
// A child logs for a random time and is killed. The file has every row for which Log() had
// returned.
TEST_F(LogTest, RowsOutliveSigkill) {
  for (int round = 0; round < 20; ++round) {
    TempDir dir;
    Settings settings = MakeSettings();
    settings.spool_dir = dir.path();
    int pipe_fds[2];
    ASSERT_EQ(pipe(pipe_fds), 0);
    const pid_t child = fork();
    if (child == 0) {
      auto run = Init(settings);
      for (uint64_t step = 0;; ++step) {
        const bool logged = step % 3 == 0
                                ? run.Log({{"a", step}, {"t", "text"}}, static_cast<int64_t>(step))
                                : run.Log({{"a", step}, {"b", 2}}, static_cast<int64_t>(step));
        if (!logged) pause();
        if (step % 16 == 0 && write(pipe_fds[1], &step, sizeof step) != sizeof step) _exit(1);
      }
    }
    close(pipe_fds[1]);
    uint64_t last = 0;
    for (int i = 0; i < 10 * (round + 1); ++i) ASSERT_EQ(read(pipe_fds[0], &last, sizeof last), 8);
    kill(child, SIGKILL);
    while (read(pipe_fds[0], &last, sizeof last) == sizeof last) {
    }
    waitpid(child, nullptr, 0);
    close(pipe_fds[0]);
    const std::vector<std::string> paths = RingPaths(dir.path());
    ASSERT_THAT(paths, SizeIs(1));
    const RingFile ring = ReadRing(paths[0]);
    ASSERT_EQ(ring.error, "");
    EXPECT_GT(ring.rows.size(), last);
    for (const FileRow& row : ring.rows) {
      ASSERT_EQ(row.values.at(0).second, static_cast<double>(row.step));
    }
  }
}

#endif

}  // namespace
}  // namespace ranklog::testing
