#include "service/cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "service/cli/command.h"

namespace ranklog::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr ProgramTexts kTexts = {.name = "tool",
                                 .version = "tool 1.0",
                                 .help = "Does things.",
                                 .footer = "\nEnd of the help.",
                                 .command_footer = "\nSee also `tool --help`."};

struct CopyFlags {
  bool fast = false;
  int width = 80;
  uint64_t rows = 10;
  std::string format = "text";
  std::string timeout = "2m";
  std::vector<std::string> names;
  std::vector<std::string> files;
};

CopyFlags copied;      // the flags that the action received
absl::Status outcome;  // what it returns

absl::Status Copy(const Globals&, const CopyFlags& flags) {
  copied = flags;
  return outcome;
}

class CommandLineTest : public ::testing::Test {
 protected:
  CommandLineTest() {
    copied = {};
    outcome = absl::OkStatus();
    auto [options, flags] = program_.Add("copy", "copy files", "\nExample: tool copy a", Copy);
    options.Add("FILE", &flags.files, "the files", {.required = true});
    options.Add("--fast", &flags.fast, "hurry");
    options.Add("--width", &flags.width, "in columns", {.least = 30, .most = 100});
    options.Add("-n,--rows", &flags.rows, "how many", {.type = "N"});
    options.Add("--format", &flags.format, "of the copy", {.one_of = {"text", "json"}});
    options.Add("--timeout", &flags.timeout, "at most",
                {.type = "DURATION", .check = CheckDuration, .excludes = "--fast"});
    options.Add("--name", &flags.names, "several", {.type = "NAME"});
  }

  int Main(std::vector<std::string> args) {
    args.insert(args.begin(), "tool");
    std::vector<char*> argv;
    for (std::string& arg : args) argv.push_back(arg.data());
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = program_.Main(static_cast<int>(argv.size()), argv.data());
    output_ = ::testing::internal::GetCapturedStdout();
    errors_ = ::testing::internal::GetCapturedStderr();
    return code;
  }

  const Globals globals_;
  Program program_{kTexts, globals_};
  std::string output_;
  std::string errors_;
};

// Such as `--name "$UNSET"` of a shell.
TEST_F(CommandLineTest, EmptyValueIsWrongUsage) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"copy", "a", "--name", ""},
                                               {"copy", "a", "--name="},
                                               {"copy", "a", "--width", ""},
                                               {"copy", ""}}) {
    EXPECT_EQ(Main(args), 2);
    EXPECT_THAT(errors_, HasSubstr(": its value is empty; is a shell variable unset?"));
  }
}

TEST_F(CommandLineTest, ActionGetsTheDefaults) {
  EXPECT_EQ(Main({"copy", "a"}), 0);
  EXPECT_FALSE(copied.fast);
  EXPECT_EQ(copied.width, 80);
  EXPECT_EQ(copied.rows, 10u);
  EXPECT_EQ(copied.format, "text");
}

TEST_F(CommandLineTest, ActionGetsTheValues) {
  EXPECT_EQ(Main({"copy", "a", "--name", "x", "b", "--name", "y", "--fast", "--width", "30", "-n",
                  "3", "--format", "json"}),
            0);
  EXPECT_THAT(copied.files, ElementsAre("a", "b"));
  EXPECT_THAT(copied.names, ElementsAre("x", "y"));
  EXPECT_TRUE(copied.fast);
  EXPECT_EQ(copied.width, 30);
  EXPECT_EQ(copied.rows, 3u);
  EXPECT_EQ(copied.format, "json");
}

TEST_F(CommandLineTest, BrokenRulesAreWrongUsage) {
  for (const std::vector<std::string>& args :
       std::vector<std::vector<std::string>>{{"copy"},
                                             {"copy", "a", "--width", "29"},
                                             {"copy", "a", "--width", "101"},
                                             {"copy", "a", "--rows", "x"},
                                             {"copy", "a", "--format", "xml"},
                                             {"copy", "a", "--timeout", "0s"},
                                             {"copy", "a", "--timeout", "5m", "--fast"}}) {
    EXPECT_EQ(Main(args), 2) << args.back();
    EXPECT_THAT(errors_, StartsWith("tool copy: ")) << args.back();
    EXPECT_THAT(copied.files, ElementsAre());
  }
}

TEST_F(CommandLineTest, UnknownCommandIsWrongUsage) {
  EXPECT_EQ(Main({"move"}), 2);
  EXPECT_THAT(errors_, HasSubstr("unknown command 'move'; the commands are copy;"));
}

TEST_F(CommandLineTest, MisspeltWordGetsASuggestion) {
  EXPECT_EQ(Main({"cpoy", "a"}), 2);
  EXPECT_THAT(errors_, HasSubstr("unknown command 'cpoy'; did you mean 'copy'?"));
  EXPECT_EQ(Main({"copy", "a", "--formatt", "json"}), 2);
  EXPECT_EQ(errors_,
            "tool copy: unknown option '--formatt'; did you mean '--format'? see `tool copy "
            "--help`\n");
  EXPECT_EQ(Main({"--fast", "copy", "a"}), 2);
  EXPECT_EQ(errors_,
            "tool copy: options such as '--fast' come after the command; see `tool copy --help`\n");
}

TEST_F(CommandLineTest, HelpIsACommandToo) {
  EXPECT_EQ(Main({"help"}), 0);
  EXPECT_THAT(output_, HasSubstr("Does things."));
  EXPECT_EQ(Main({"help", "copy"}), 0);
  EXPECT_THAT(output_, HasSubstr("copy files"));
  EXPECT_EQ(Main({"help", "cpoy"}), 2);
  EXPECT_THAT(errors_, HasSubstr("unknown command 'cpoy'"));
}

TEST(OptionCheckTest, NumbersAreWhole) {
  EXPECT_EQ(CheckPositive("1"), "");
  EXPECT_EQ(CheckCount("0"), "");
  for (const char* text : {"abc", "-1", "1.5", ""}) {
    EXPECT_THAT(CheckPositive(text), HasSubstr("not a whole number of 1 or more")) << text;
    EXPECT_THAT(CheckCount(text), HasSubstr("not a whole number of 0 or more")) << text;
  }
  EXPECT_NE(CheckPositive("0"), "");
}

TEST_F(CommandLineTest, ErrorOfTheActionIsPrinted) {
  outcome = absl::UnavailableError("the disk is gone");
  EXPECT_EQ(Main({"copy", "a"}), 1);
  EXPECT_EQ(errors_, "tool: the disk is gone\n");
}

TEST_F(CommandLineTest, HelpShowsRulesAndBothFooters) {
  EXPECT_EQ(Main({"copy", "--help"}), 0);
  EXPECT_THAT(output_, HasSubstr("INT in [30 - 100]"));
  EXPECT_THAT(output_, HasSubstr("{text,json}"));
  EXPECT_THAT(output_, HasSubstr("Example: tool copy a\nSee also `tool --help`."));
}

}  // namespace
}  // namespace ranklog::cli
