// What programs printed, in the store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreConsoleTest : public StoreTest {
 protected:
  void Print(const model::Stream& stream, std::vector<model::ConsoleLine> lines) {
    model::Item item;
    item.kind = model::Item::Kind::kConsole;
    item.console = std::move(lines);
    Do([&] { EXPECT_OK(AppendItem(*store_, stream.id, item)); });
  }
  model::Stream NewRing(uint32_t rank, uint64_t incarnation) {
    model::Stream stream;
    Do([&] { stream = Attach(rank, incarnation); });
    return stream;
  }
  std::vector<std::string> Texts(int64_t run, uint32_t rank) {
    std::vector<std::string> texts;
    const auto lines = reader_->ConsoleLines(run, rank, 0, 1'000'000);
    for (const auto& stored : *lines) {
      texts.push_back(
          absl::StrCat(stored.line.number, stored.line.error ? "!" : " ", stored.line.text));
    }
    return texts;
  }
};

TEST_F(StoreConsoleTest, LinesAreNumberedByRank) {
  const model::Stream ring = NewRing(0, 1);
  const model::Stream other = NewRing(1, 1);
  Print(ring,
        {{.number = 5, .time_us = 1, .text = "a"}, {.number = 7, .error = true, .text = "b"}});
  Print(other, {{.number = 0, .text = "of 1"}});
  EXPECT_THAT(Texts(ring.run, 0), ElementsAre("0 a", "1!b"));
  EXPECT_THAT(Texts(ring.run, 1), ElementsAre("0 of 1"));
  EXPECT_THAT(*reader_->ConsoleRanks(ring.run), SizeIs(2));
  EXPECT_THAT(*reader_->Items(ring.run, 0), IsEmpty());
}

TEST_F(StoreConsoleTest, AnotherProcessGoesOnBehindTheLastLine) {
  const model::Stream first = NewRing(0, 1);
  Print(first, {{.number = 0, .text = "a"}});
  Print(NewRing(0, 2), {{.number = 0, .text = "again"}});
  Print(first, {{.number = 1, .text = "b"}});
  EXPECT_THAT(Texts(first.run, 0), ElementsAre("0 a", "1 again", "2 b"));
}

TEST_F(StoreConsoleTest, AChangedLineKeepsItsNumberAndIsANewChange) {
  const model::Stream ring = NewRing(0, 1);
  Print(ring, {{.number = 0, .text = "10 %"}, {.number = 1, .text = "x"}});
  const int64_t seen = reader_->ConsoleChanges(ring.run, 0, 0, 10)->back().id;
  EXPECT_THAT(*reader_->ConsoleChanges(ring.run, 0, seen, 10), IsEmpty());
  Print(ring, {{.number = 0, .text = "20 %"}, {.number = 2, .text = "y"}});
  EXPECT_THAT(Texts(ring.run, 0), ElementsAre("0 20 %", "1 x", "2 y"));
  const auto changes = *reader_->ConsoleChanges(ring.run, 0, seen, 10);
  ASSERT_THAT(changes, SizeIs(2));
  EXPECT_EQ(changes[0].line.number, 0u);
  EXPECT_EQ(changes[0].line.text, "20 %");
  EXPECT_EQ(changes[1].line.number, 2u);
}

TEST_F(StoreConsoleTest, TheNewestLinesAreKept) {
  const model::Stream ring = NewRing(0, 1);
  constexpr uint64_t kLines = 100'500;
  for (uint64_t next = 0; next < kLines;) {
    std::vector<model::ConsoleLine> lines;
    for (int i = 0; i < 10'050; ++i, ++next) {
      lines.push_back({.number = next, .text = absl::StrCat("line ", next)});
    }
    Print(ring, std::move(lines));
  }
  const auto ranks = *reader_->ConsoleRanks(ring.run);
  EXPECT_EQ(ranks.at(0).from, 500u);
  EXPECT_EQ(ranks.at(0).end, kLines);
  EXPECT_EQ(reader_->ConsoleLines(ring.run, 0, 0, 1)->front().line.text, "line 500");
}

TEST_F(StoreConsoleTest, RepeatedItemsChangeNothing) {
  const model::Stream ring = NewRing(0, 1);
  model::Item item;
  item.kind = model::Item::Kind::kConsole;
  item.seq = 1;
  item.console = {{.number = 0, .text = "a"}};
  Do([&] { EXPECT_OK(store_->AppendItems(ring.id, {item})); });
  item.console = {{.number = 0, .text = "other"}};
  Do([&] { EXPECT_OK(store_->AppendItems(ring.id, {item})); });
  EXPECT_THAT(Texts(ring.run, 0), ElementsAre("0 a"));
}

// A store whose counts contradict each other counts as damaged at the next start.
TEST_F(StoreConsoleTest, TheirItemsCount) {
  const model::Stream ring = NewRing(0, 1);
  Print(ring, {{.number = 0, .text = "a"}});
  Do([&] {
    model::Item item;
    item.object = {{"lr", 1}};
    EXPECT_OK(AppendItem(*store_, ring.id, item));
  });
  Print(ring, {{.number = 1, .text = "b"}});
  EXPECT_OK(reader_->Check());
  Reopen();
  EXPECT_THAT(Texts(ring.run, 0), ElementsAre("0 a", "1 b"));
}

TEST_F(StoreConsoleTest, GoWithTheirRun) {
  const model::Stream ring = NewRing(0, 1);
  Print(ring, {{.number = 0, .text = "a"}});
  Do([&] {
    EXPECT_OK(store_->EndStream(ring.id, model::StreamState::kFinished, 0, "", 1));
    EXPECT_OK(store_->CloseRun(ring.run, model::RunState::kFinished, 0, "", 1));
    EXPECT_OK(store_->RemoveRun(ring.run, 2, storage::Removal::kWhateverWaits));
  });
  for (bool more = true; more;) {
    Do([&] { more = store_->SweepRemoved()->more; });
  }
  EXPECT_THAT(Texts(ring.run, 0), IsEmpty());
}

}  // namespace
}  // namespace ranklog::testing
