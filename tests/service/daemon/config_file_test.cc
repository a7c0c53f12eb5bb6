// The errors of a configuration file. config_test.cc has its values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "service/daemon/config/config.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Parsed ParseArguments(std::vector<const char*> args) {
  args.insert(args.begin(), "ranklogd");
  return ParseConfig(static_cast<int>(args.size()), args.data());
}

// CLI11 skips most of these lines, and takes the first of two equal keys.
TEST(ConfigFileTest, MalformedLinesAreRejectedByNumber) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  const auto error = [&](const std::string& line) {
    std::ofstream(file) << "# ours\ndrain = \"2m\"\n" << line << "\nlog-level = \"debug\"\n";
    const Parsed parsed = ParseArguments({"--config", file.c_str()});
    EXPECT_EQ(parsed.exit_code, 2) << line;
    return parsed.text;
  };
  for (const char* line :
       {"[x", "[x]", "[drain]", "keep-for", "keep-for =", "keep-for = [\"2m\"]", "keep-for = {}",
        "keep-for = 2 m", "keep-for = 1, 2", "keep for = \"2m\"", "= \"2m\"", "; ours", "x",
        "\"drainX = \"2m\"", "\"drain] = \"2m\"", "\"\" = \"2m\"", "\" = \"2m\""}) {
    EXPECT_EQ(error(line), "ranklogd: " + file +
                               ":3: not a setting; write KEY = \"VALUE\", without sections and "
                               "arrays\n");
  }
  for (const char* line : {"drain = \"3m\"", "\"drain\"=3m", "drain = \"2m\""}) {
    EXPECT_EQ(error(line), "ranklogd: " + file + ":3: 'drain' is already in line 2\n");
  }
}

// TOML has no strings without quotes.
TEST(ConfigFileTest, StringNeedsQuotes) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  const auto parse = [&](const std::string& line) {
    std::ofstream(file) << "# ours\n" << line << "\n";
    return ParseArguments({"--config", file.c_str()});
  };
  for (const char* line : {"drain = 2m", "log-level = debug", "state-dir = true"}) {
    EXPECT_THAT(parse(line).text, StartsWith("ranklogd: " + file + ":2: put the value in quotes: "))
        << line;
  }
  EXPECT_THAT(parse("drain = 2m").text, HasSubstr(": drain = \"2m\""));
  for (const char* line : {"metrics-port = 9464", "keep-bytes = 0", "background = true"}) {
    EXPECT_TRUE(parse(line).run) << line;
  }
}

TEST(ConfigFileTest, FlagsThatAreNoSettingsAreRejectedByNumber) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  for (const std::string name : {"config", "help", "version", "print-config"}) {
    std::ofstream(file) << "# ours\n" << name << " = \"x\"\n";
    EXPECT_EQ(ParseArguments({"--config", file.c_str()}).text,
              "ranklogd: " + file + ":2: '" + name + "' is only a flag; remove this line\n");
  }
}

TEST(ConfigFileTest, ZeroBytesAreRejectedByNumber) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  for (const char* line : {"state-dir = \"/x0y\"", "dra0in = \"2m\"", "0drain = \"2m\"", "0"}) {
    std::string text = std::string("# ours\n") + line + "\n";
    text[text.find('0')] = '\0';
    std::ofstream(file) << text;
    EXPECT_EQ(ParseArguments({"--config", file.c_str()}).text,
              "ranklogd: " + file + ":2: a zero byte; write the file as text in UTF-8\n");
  }
}

TEST(ConfigFileTest, ByteOrderMarkIsSkipped) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "\xef\xbb\xbf"
                      << "drain = \"2m\"\n";
  const Parsed parsed = ParseArguments({"--config", file.c_str()});
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_EQ(parsed.config.drain, absl::Minutes(2));
}

TEST(ConfigFileTest, FileThatOthersMayWriteIsRefused) {
  EXPECT_THAT(ParseArguments({"--config", "/dev/null"}).text,
              StartsWith("ranklogd: --config: /dev/null is writable by other users; it is not a "
                         "regular file; pass one of yours"));
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "drain = \"2m\"\n";
  ASSERT_EQ(chmod(file.c_str(), 0602), 0);
  EXPECT_THAT(ParseArguments({"--config", file.c_str()}).text,
              HasSubstr("is writable by other users; run: chmod o-w " + file));
}

TEST(ConfigFileTest, WrongValueNamesItsSource) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "drain = \"2m\"\nkeep-for = \"5\"\n";
  EXPECT_THAT(ParseArguments({"--config", file.c_str()}).text,
              StartsWith("ranklogd: " + file + ":2: keep-for: '5' is not a duration"));
  EXPECT_THAT(ParseArguments({"--config", file.c_str(), "--keep-for", "6"}).text,
              StartsWith("ranklogd: --keep-for: '6' is not a duration"));
  std::ofstream(file) << "background = maybe\n";
  EXPECT_THAT(ParseArguments({"--config", file.c_str()}).text,
              StartsWith("ranklogd: " + file + ":1: background: 'maybe' is not true or false"));
  const std::pair<const char*, const char*> variables[] = {
      {"RANKLOG_TRANSMIT_INTERVAL", "'7' is not a duration"},
      {"RANKLOG_ADDRESS", "'7' is not an address; use unix:PATH"}};
  for (const auto& [variable, why] : variables) {
    setenv(variable, "7", 1);
    EXPECT_THAT(ParseArguments({}).text,
                StartsWith("ranklogd: $" + std::string(variable) + ": " + why));
    unsetenv(variable);
  }
}

TEST(ConfigFileTest, UnreadableFileReportsTheReason) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  EXPECT_THAT(ParseArguments({"--config", file.c_str()}).text,
              StartsWith("ranklogd: --config: cannot read " + file + ": No such file"));
  ASSERT_EQ(symlink(file.c_str(), file.c_str()), 0);
  EXPECT_THAT(ParseArguments({"--config", file.c_str()}).text,
              HasSubstr(": Too many levels of symbolic"));
}

}  // namespace
}  // namespace ranklog::daemon
