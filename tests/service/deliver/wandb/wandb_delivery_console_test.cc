// The console at the server: lines of output.log, and the file at the end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/service/deliver/wandb/http_delivery.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class WandbDeliveryConsoleTest : public HttpDeliveryTest {
 protected:
  WandbDeliveryConsoleTest() { Restart(); }
  void Restart() { HttpDeliveryTest::Restart({}); }
  void Print(std::vector<model::ConsoleLine> lines) {
    for (model::ConsoleLine& line : lines) line.time_us = testing::kRunStartUs;
    model::Item item;
    item.kind = model::Item::Kind::kConsole;
    item.console = std::move(lines);
    stored_.Write([&](storage::Store& store) {
      EXPECT_OK(testing::AppendItem(store, stored_.stream().id, item, testing::kRunStartUs));
    });
  }
  std::vector<std::string> Console() const { return server_.run("r").console; }
  static std::string Line(const std::string& text) { return "2026-01-02T03:00:00.000000 " + text; }
};

TEST_F(WandbDeliveryConsoleTest, LinesHaveTheOfficialClientsForm) {
  stored_.Append(1);
  Print({{.number = 0, .text = "hello"}, {.number = 1, .error = true, .text = "oops"}});
  Deliver();
  EXPECT_THAT(Console(), ElementsAre(Line("hello"), "ERROR " + Line("oops")));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliveryConsoleTest, AChangedLineIsSentToItsPlace) {
  Print({{.number = 0, .text = "10 %"}, {.number = 1, .text = "a"}, {.number = 2, .text = "b"}});
  Deliver();
  Restart();
  Print({{.number = 0, .text = "20 %"}, {.number = 2, .text = "c"}, {.number = 3, .text = "d"}});
  now_ += absl::Minutes(1);
  Deliver();
  EXPECT_THAT(Console(), ElementsAre(Line("20 %"), Line("a"), Line("c"), Line("d")));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

TEST_F(WandbDeliveryConsoleTest, TheFileComesBeforeTheEnd) {
  stored_.Append(1);
  Print({{.number = 0, .text = "hello"}, {.number = 1, .error = true, .text = "last words"}});
  stored_.Close(model::RunState::kFailed, 1);
  Deliver();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  EXPECT_EQ(server_.run("r").files.at("output.log"), "hello\nlast words\n");
  EXPECT_THAT(Console(), SizeIs(2));
}

TEST_F(WandbDeliveryConsoleTest, ALostAnswerDoublesNothing) {
  stored_.Append(1);
  Deliver();
  Print({{.number = 0, .text = "a"}});
  server_.Inject({.code = 0, .act = true});
  now_ += absl::Minutes(1);
  Deliver();
  Restart();
  Print({{.number = 1, .text = "b"}});
  now_ += absl::Minutes(1);
  Deliver(absl::Seconds(20));
  EXPECT_THAT(Console(), ElementsAre(Line("a"), Line("b")));
}

TEST_F(WandbDeliveryConsoleTest, ManyLinesArriveInSeveralPosts) {
  std::vector<model::ConsoleLine> lines;
  for (uint64_t i = 0; i < 5000; ++i) lines.push_back({.number = i, .text = absl::StrCat(i)});
  Print(lines);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  ASSERT_THAT(Console(), SizeIs(5000));
  EXPECT_EQ(Console().back(), Line("4999"));
}

TEST_F(WandbDeliveryConsoleTest, LinesOfAnotherProgramStay) {
  stored_.Append(1);
  Print({{.number = 0, .text = "a"}});
  Deliver();
  server_.Tamper("r", [](auto& run) { run.console.push_back("theirs"); });
  Print({{.number = 1, .text = "b"}});
  now_ += absl::Minutes(5);
  Deliver();
  EXPECT_THAT(Console(), ElementsAre(Line("a"), "theirs", Line("b")));
}

TEST_F(WandbDeliveryConsoleTest, RefusedLinesHoldUpNothing) {
  stored_.Append(1);
  Deliver();
  Print({{.number = 0, .text = "a"}});
  server_.Inject({.code = 400});
  now_ += absl::Minutes(1);
  Deliver();
  Print({{.number = 1, .text = "b"}});
  stored_.Append(1);
  stored_.Close(model::RunState::kFinished, 0);
  Deliver();
  EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("console: "));
  EXPECT_THAT(server_.run("r").history, SizeIs(2));
}

}  // namespace
}  // namespace ranklog::deliver::wandb
