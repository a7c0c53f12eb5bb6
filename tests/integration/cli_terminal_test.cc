// Output that a terminal gets and a file does not: bars and colours.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "tests/integration/cli_fixture.h"
#include "tests/support/status_matchers.h"
#include "tests/support/terminal.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kEscape[] = "\x1b[";
constexpr char kTakenAway[] = "\r\x1b[K";

class CliTerminalTest : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    options_.environment["TERM"] = "xterm";
    options_.unset.push_back("NO_COLOR");
  }
  Finished OnTerminal(std::vector<std::string> args, const std::string& typed = "") const {
    args.insert(args.begin(), RANKLOG_CLI);
    return RunOnTerminal(args, options_, typed);
  }
  Finished OnTerminalOfStore(std::vector<std::string> args, const std::string& typed = "") const {
    args.insert(args.end(), {"--state-dir", state_dir()});
    return OnTerminal(std::move(args), typed);
  }
};

TEST_F(CliTerminalTest, ColoursRespectTerminalAndEnvironment) {
  store_.reset();
  const Finished coloured = OnTerminalOfStore({"status"});
  EXPECT_EQ(coloured.code, 0);
  EXPECT_THAT(coloured.output, AllOf(HasSubstr("not running"), HasSubstr(kEscape)));
  for (const auto& [name, value] : {std::pair("NO_COLOR", "1"), std::pair("TERM", "dumb")}) {
    const std::string before = std::exchange(options_.environment[name], value);
    EXPECT_THAT(OnTerminalOfStore({"status"}).output,
                AllOf(HasSubstr("not running"), Not(HasSubstr(kEscape))))
        << name;
    options_.environment[name] = before;
  }
  EXPECT_THAT(Ranklog({"status"}).output, AllOf(HasSubstr("not running"), Not(HasSubstr(kEscape))));
}

TEST_F(CliTerminalTest, WatchedStatusRedrawsInPlace) {
  const Finished drawn =
      OnTerminalOfStore({"status", "--watch", "--interval", "10ms", "--times", "2"});
  EXPECT_EQ(drawn.code, 0);
  const std::string home = std::string(kEscape) + "H";
  const size_t first = drawn.output.find(home);
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(first, 0u);
  EXPECT_NE(drawn.output.find(home + "daemon  ", first + 1), std::string::npos) << drawn.output;
}

TEST_F(CliTerminalTest, WatchedStatusFitsIntoTheTerminal) {
  ASSERT_OK(store_->Begin());
  for (int i = 0; i < 30; ++i) {
    const std::string name = "run" + std::to_string(i);
    Attach(name, 0, name, "local", kStart);
  }
  ASSERT_OK(store_->Commit());
  const Finished drawn = OnTerminalOfStore({"status", "--watch", "--times", "1"});
  EXPECT_EQ(drawn.code, 0) << drawn.output;
  EXPECT_THAT(drawn.output,
              AllOf(HasSubstr("daemon  "), HasSubstr("... and "), HasSubstr(" more lines")));
  EXPECT_LE(Lines(absl::StrReplaceAll(drawn.output, {{"\r", ""}})).size(), 24u) << drawn.output;
}

TEST_F(CliTerminalTest, BidiControlsInNameAreReplaced) {
  ASSERT_OK(store_->Begin());
  Attach("turned", 0, "x\u202Egnp.exe\u2066\u2028y", "local", kStart);
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(Ranklog({"runs"}).output, HasSubstr("x?gnp.exe??y"));
}

TEST_F(CliTerminalTest, InterruptAtKeyPromptRestoresEcho) {
  // A shell's child in the background ignores Ctrl-C, so the script restores it. It sends the
  // signal once the echo is off.
  const std::string script =
      "exec 3<&0; env --default-signal=INT \"$0\" login --no-check <&3 & "
      "while stty -a | grep -q ' echo '; do sleep 0.01; done; "
      "kill -INT $!; wait $!; echo code $?; stty -a";
  const Finished told = RunOnTerminal({"bash", "-c", script, RANKLOG_CLI}, options_);
  EXPECT_THAT(told.output, AllOf(HasSubstr("API key"), HasSubstr("code 130"), HasSubstr(" echo ")));
}

// The tracker does not answer, so sync waits long enough to draw a bar.
TEST_F(CliTerminalTest, SyncDrawsABar) {
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  const std::vector<std::string> sync = {"sync", "--timeout", "2s"};
  const Finished drawn = OnTerminalOfStore(sync);
  EXPECT_EQ(drawn.code, 1) << drawn.output;
  EXPECT_THAT(drawn.output, AllOf(HasSubstr("\rsync ["), HasSubstr("60%  3/5"),
                                  HasSubstr(kTakenAway), HasSubstr("2 of 5 rows delivered")));
  const Finished written = Ranklog(sync);
  EXPECT_EQ(written.code, 1) << written.output;
  EXPECT_THAT(written.output, AllOf(Not(HasSubstr("\r")), Not(HasSubstr(kEscape)),
                                    HasSubstr("2 of 5 rows delivered")));
}

TEST_F(CliTerminalTest, ProgressBarIncludesRunEnd) {
  model::Delivery delivery;
  delivery.run = run_;
  delivery.kind = "wandb";
  delivery.delivered_rows = 5;
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->PutDelivery(delivery));
  ASSERT_OK(store_->Commit());
  store_.reset();
  options_.environment["WANDB_API_KEY"] = std::string(40, 'a');
  const Finished drawn = OnTerminalOfStore({"sync", "--timeout", "2s"});
  EXPECT_EQ(drawn.code, 1) << drawn.output;
  EXPECT_THAT(drawn.output, AllOf(HasSubstr("83%  5/6"), Not(HasSubstr("100%")),
                                  HasSubstr("the run's end is not delivered")));
}

// recover waits for a rank of the run that never attaches.
TEST_F(CliTerminalTest, RecoverDrawsABar) {
  store_.reset();
  const std::string file = state_dir() + "/ranklog.db";
  const Finished drawn = OnTerminal({"recover", file});
  EXPECT_EQ(drawn.code, 0) << drawn.output;
  EXPECT_THAT(drawn.output, AllOf(HasSubstr("\raggregate the rows ["), HasSubstr(kTakenAway)));
  std::filesystem::remove_all(file + ".recovered");
  const Finished written = RunToEnd({RANKLOG_CLI, "recover", file}, options_);
  EXPECT_EQ(written.code, 0) << written.output;
  EXPECT_THAT(written.output, AllOf(Not(HasSubstr("\r")), Not(HasSubstr("aggregate the rows")),
                                    Not(HasSubstr(kEscape)), HasSubstr("saved in")));
}

// The whole table, if the output is not a terminal.
TEST_F(CliTerminalTest, RunsFitsIntoSeventyColumns) {
  const std::string name = "an-experiment-with-a-name-that-says-a-lot-of-it";
  ASSERT_OK(store_->Begin());
  Attach(name + "-and-its-seed-17", 0, name, "local", kStart);
  ASSERT_OK(store_->Commit());
  const auto runs = [&](const std::string& columns) {
    const Finished finished = RunOnTerminal({"sh", "-c", "stty cols \"$0\"; exec \"$@\"", columns,
                                             RANKLOG_CLI, "runs", "--state-dir", state_dir()},
                                            options_);
    EXPECT_EQ(finished.code, 0) << finished.output;
    std::vector<std::string> lines;
    const std::string plain =
        absl::StrReplaceAll(finished.output, {{"\r", ""}, {"\x1b[1m", ""}, {"\x1b[0m", ""}});
    for (const std::string& line : Lines(plain)) {
      if (!absl::StrContains(line, " waits for ")) lines.push_back(line);
    }
    return lines;
  };
  const std::vector<std::string> narrow = runs("70");
  ASSERT_EQ(narrow.size(), 4u);
  for (const std::string& line : narrow) EXPECT_LE(line.size(), 70u) << line;
  EXPECT_THAT(narrow[1], AllOf(StartsWith("an-ex"), HasSubstr("..."), HasSubstr("d-17 ")));
  EXPECT_THAT(narrow[3], AllOf(StartsWith("job1"), HasSubstr("finished"),
                               HasSubstr("wandb 2 +2 (1 refused)")));
  const std::vector<std::string> wide = runs("300");
  ASSERT_EQ(wide.size(), 4u);
  EXPECT_THAT(wide[1], AllOf(StartsWith(name + "-and-its-seed-17"), HasSubstr("gpt")));
  EXPECT_THAT(Ranklog({"runs"}).output, HasSubstr(wide[1]));
}

TEST_F(CliTerminalTest, RemoveAsksFirst) {
  store_.reset();
  const Finished kept = OnTerminalOfStore({"rm", "tiny", "--force"}, "\n");
  EXPECT_EQ(kept.code, 1) << kept.output;
  EXPECT_THAT(
      kept.output,
      AllOf(HasSubstr("gpt:job1  tiny, finished, 5 rows, started 2023-11-14 22:13:20, 2 "
                      "rows not delivered to wandb"),
            HasSubstr("Remove this run from this node? [y/N]"), HasSubstr("nothing was removed")));
  EXPECT_EQ(Ranklog({"show", "tiny"}).code, 0);
  const Finished removed = OnTerminalOfStore({"rm", "tiny", "--force"}, "y\n");
  EXPECT_EQ(removed.code, 0) << removed.output;
  EXPECT_THAT(removed.output, HasSubstr("removed gpt:job1, 5 rows"));
  EXPECT_EQ(Ranklog({"show", "tiny"}).code, 1);
}

}  // namespace
}  // namespace ranklog::testing
