#include "service/daemon/process/log_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <unistd.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

namespace ranklog::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::MatchesRegex;

class LogFormatTest : public ::testing::Test {
 protected:
  LogFormatTest() : before_(spdlog::default_logger()) {
    LogTo(std::make_shared<spdlog::sinks::ostream_sink_mt>(text_));
  }
  ~LogFormatTest() override { spdlog::set_default_logger(before_); }

  std::vector<std::string> Lines() const {
    std::vector<std::string> lines;
    std::istringstream stream(text_.str());
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }

  const std::shared_ptr<spdlog::logger> before_;
  std::ostringstream text_;
};

TEST_F(LogFormatTest, TextBeginsWithTimeAndLevel) {
  spdlog::warn("disk is full");
  EXPECT_THAT(
      Lines(),
      ElementsAre(MatchesRegex("20[0-9-]+T[0-9:.]+[+-][0-9]+:?[0-9]+ warning disk is full")));
}

TEST_F(LogFormatTest, JsonHoldsAnyMessage) {
  LogAsJson();
  const std::string message = "a \"quoted\"\nline with \\ and \x01";
  spdlog::error(message);
  ASSERT_EQ(Lines().size(), 1u);
  const auto line = nlohmann::json::parse(Lines().front());
  EXPECT_EQ(line["message"], message);
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["pid"], getpid());
  EXPECT_THAT(std::string(line["time"]), MatchesRegex("20[0-9-]+T[0-9:.]+[+-][0-9]+:?[0-9]+"));
  spdlog::error("not UTF-8: \xff");
  EXPECT_EQ(nlohmann::json::parse(Lines().back())["message"], "not UTF-8: \uFFFD");
}

TEST_F(LogFormatTest, DuplicateLinesAreCollapsedAndCounted) {
  for (int i = 0; i < 1000; ++i) spdlog::warn("again");
  spdlog::info("something else");
  spdlog::warn("again");
  EXPECT_THAT(Lines(),
              ElementsAre(EndsWith(" warning again"), EndsWith("Skipped 999 duplicate messages.."),
                          EndsWith(" info something else"), EndsWith(" warning again")));
}

}  // namespace
}  // namespace ranklog::daemon
