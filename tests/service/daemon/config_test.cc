#include "service/daemon/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

Parsed Parse(std::vector<const char*> args) {
  args.insert(args.begin(), "ranklogd");
  return ParseConfig(static_cast<int>(args.size()), args.data());
}

TEST(ConfigTest, EmptyValueTakesNoOtherFlag) {
  const Parsed parsed = Parse({"--state-dir=", "--print-config"});
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.text, HasSubstr("--state-dir: its value is empty"));
}

TEST(ConfigTest, EmptyValueIsRefused) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  for (const std::string name : {"state-dir", "spool-dir", "config"}) {
    const Parsed flag = Parse({("--" + name).c_str(), ""});
    EXPECT_EQ(flag.exit_code, 2);
    EXPECT_THAT(flag.text, HasSubstr("--" + name + ": its value is empty"));
  }
  std::ofstream(file) << "# ours\nstate-dir = \"\"\n";
  EXPECT_THAT(Parse({"--config", file.c_str()}).text,
              StartsWith("ranklogd: " + file + ":2: state-dir: its value is empty"));
}

TEST(ConfigTest, TooLongSocketPathIsWrongUsage) {
  const std::string longest = "unix:/" + std::string(106, 'a'), over = longest + "a";
  EXPECT_TRUE(Parse({"--listen", longest.c_str()}).run);
  constexpr char kWhy[] =
      ": the path of the socket has 108 bytes, and the kernel accepts at most 107; choose a "
      "shorter";
  const Parsed flag = Parse({"--listen", over.c_str()});
  EXPECT_EQ(flag.exit_code, 2);
  EXPECT_THAT(flag.text, HasSubstr(std::string("--listen") + kWhy));
  setenv("RANKLOG_ADDRESS", over.c_str(), 1);
  EXPECT_THAT(Parse({}).text, HasSubstr(std::string("$RANKLOG_ADDRESS") + kWhy));
  unsetenv("RANKLOG_ADDRESS");
  // The working directory counts.
  EXPECT_EQ(Parse({"--listen", ("unix:" + std::string(107, 'a')).c_str()}).exit_code, 2);
}

TEST(ConfigTest, FlagsSetTheConfig) {
  const Parsed parsed = Parse({"--state-dir", "/s", "--listen", "unix:/d/s.sock", "--drain", "2m",
                               "--commit-interval", "10ms", "--spool-dir", "/x"});
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_THAT(parsed.config.state_dirs, ElementsAre("/s"));
  EXPECT_EQ(parsed.config.socket_path, "/d/s.sock");
  EXPECT_EQ(parsed.config.drain, absl::Minutes(2));
  EXPECT_EQ(parsed.config.commit_interval, absl::Milliseconds(10));
  ASSERT_FALSE(parsed.config.spool_dirs.empty());
  EXPECT_EQ(parsed.config.spool_dirs.front(), "/x");
}

TEST(ConfigTest, DurationSetsItsMember) {
  const std::pair<const char*, absl::Duration Config::*> flags[] = {
      {"--drain", &Config::drain},
      {"--idle-exit", &Config::idle_exit},
      {"--commit-interval", &Config::commit_interval},
      {"--step-wait", &Config::step_wait},
      {"--first-row-wait", &Config::first_row_wait},
      {"--transmit-interval", &Config::transmit_interval}};
  for (const auto& [flag, member] : flags) {
    EXPECT_NE(Parse({}).config.*member, absl::Seconds(7)) << flag;
    EXPECT_EQ(Parse({flag, "7s"}).config.*member, absl::Seconds(7)) << flag;
  }
}

TEST(ConfigTest, RankStartedDaemonExitsWhenIdle) {
  EXPECT_EQ(Parse({}).config.idle_exit, absl::InfiniteDuration());
  setenv("RANKLOG_STARTED_BY", kRank, 1);
  const Parsed parsed = Parse({}), forever = Parse({"--idle-exit", "never"});
  unsetenv("RANKLOG_STARTED_BY");
  EXPECT_EQ(parsed.config.idle_exit, absl::Minutes(10));
  EXPECT_EQ(forever.config.idle_exit, absl::InfiniteDuration());
}

// A rank that finds no space in its configured directory uses one of these.
TEST(ConfigTest, StandardSpoolDirectoriesAreScanned) {
  const std::string uid = std::to_string(geteuid());
  for (const Parsed& parsed :
       {Parse({"--state-dir", "/s", "--spool-dir", "/x"}), Parse({"--state-dir", "/s"})}) {
    EXPECT_THAT(parsed.config.spool_dirs,
                IsSupersetOf(
                    {"/run/ranklog/" + uid, "/dev/shm/ranklog-" + uid, "/var/tmp/ranklog-" + uid}));
  }
}

TEST(ConfigTest, RetentionDefaultsAppearInHelp) {
  const Parsed parsed = Parse({"--state-dir", "/s"});
  EXPECT_EQ(parsed.config.keep.keep_for, absl::Hours(168));
  EXPECT_EQ(parsed.config.keep.keep_bytes, int64_t{4} << 30);
  EXPECT_THAT(Parse({"--help"}).text,
              AllOf(HasSubstr("--keep-for"), HasSubstr("DURATION=168h"), HasSubstr("SIZE=4GiB")));
}

TEST(ConfigTest, RetentionIsConfigurable) {
  const std::pair<const char*, absl::Duration> ages[] = {{"0", absl::ZeroDuration()},
                                                         {"90m", absl::Minutes(90)},
                                                         {"forever", absl::InfiniteDuration()}};
  for (const auto& [text, age] : ages) {
    const Parsed parsed = Parse({"--state-dir", "/s", "--keep-for", text});
    EXPECT_TRUE(parsed.run) << parsed.text;
    EXPECT_EQ(parsed.config.keep.keep_for, age) << text;
  }
  const std::pair<const char*, int64_t> sizes[] = {{"0", 0},
                                                   {"1048576", 1 << 20},
                                                   {"12B", 12},
                                                   {"3KiB", 3 << 10},
                                                   {"500MiB", 500 << 20},
                                                   {"1.5GiB", int64_t{3} << 29},
                                                   {"2TiB", int64_t{2} << 40},
                                                   {"unlimited", storage::KeepLimits::kUnlimited}};
  for (const auto& [text, size] : sizes) {
    const Parsed parsed = Parse({"--state-dir", "/s", "--keep-bytes", text});
    EXPECT_TRUE(parsed.run) << parsed.text;
    EXPECT_EQ(parsed.config.keep.keep_bytes, size) << text;
  }
}

TEST(ConfigTest, InvalidAgeOrSizeIsRefused) {
  for (const char* text : {"-1h", "7", "soon", "inf", ""}) {
    EXPECT_EQ(Parse({"--state-dir", "/s", "--keep-for", text}).exit_code, 2) << text;
  }
  for (const char* text : {"-1", "4GB", "4 G", "lots", "nan", "inf", "9999999TiB", "GiB", ""}) {
    EXPECT_EQ(Parse({"--state-dir", "/s", "--keep-bytes", text}).exit_code, 2) << text;
  }
}

TEST(ConfigTest, FlagOverridesFile) {
  testing::TempDir dir;
  std::ofstream(dir.File("c.toml")) << "drain = \"5s\"\nlog-level = \"debug\"\n";
  const std::string file = dir.File("c.toml");
  const Parsed parsed = Parse({"--config", file.c_str(), "--drain", "7s", "--state-dir", "/s"});
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_EQ(parsed.config.drain, absl::Seconds(7));
  EXPECT_EQ(parsed.config.log_level, "debug");
}

TEST(ConfigTest, RejectsUnknownFileOptionByName) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "drian = \"5s\"\n";
  const Parsed parsed = Parse({"--config", file.c_str()});
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 2);
  EXPECT_THAT(parsed.text,
              AllOf(HasSubstr(file), HasSubstr("'drian'"), HasSubstr("ranklogd --help")));
}

TEST(ConfigTest, CommitIntervalIsAtMostAMinute) {
  EXPECT_TRUE(Parse({"--commit-interval", "1m"}).run);
  EXPECT_THAT(Parse({"--commit-interval", "61s"}).text,
              StartsWith("ranklogd: --commit-interval: '61s' is not a duration of at least 1ms and "
                         "at most 1m"));
}

TEST(ConfigTest, UnknownOptionReportsLineAndSuggestion) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "# ours\nlog-level = \"info\"\n\nkeep_for = \"5h\"\n";
  EXPECT_THAT(Parse({"--config", file.c_str()}).text,
              AllOf(StartsWith("ranklogd: " + file +
                               ":4: unknown option 'keep_for'; "
                               "did you mean 'keep-for'?")));
  EXPECT_EQ(Parse({"--keep-fro", "5h"}).text,
            "ranklogd: unknown option '--keep-fro'; did you mean '--keep-for'? see `ranklogd "
            "--help`\n");
  EXPECT_EQ(Parse({"5h"}).text, "ranklogd: unexpected '5h'; see `ranklogd --help`\n");
  EXPECT_THAT(Parse({"--colour=blue"}).text, Not(HasSubstr("did you mean")));
}

// Returns the output of --print-config by setting: value and source.
std::map<std::string, std::pair<std::string, std::string>> Printed(std::vector<const char*> args) {
  args.push_back("--print-config");
  const Parsed parsed = Parse(std::move(args));
  EXPECT_FALSE(parsed.run);
  EXPECT_EQ(parsed.exit_code, 0);
  std::map<std::string, std::pair<std::string, std::string>> settings;
  std::istringstream text(parsed.text);
  const std::regex setting("(#?[a-z-]+) = (.*[^ ]) +# ([^ ]+)");
  for (std::string line; std::getline(text, line);) {
    std::smatch match;
    EXPECT_TRUE(std::regex_match(line, match, setting)) << line;
    settings[match[1]] = {match[2], match[3]};
  }
  return settings;
}

TEST(ConfigTest, PrintedSettingsHaveTheirSource) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  std::ofstream(file) << "# ours\ndrain = \"5s\"\nkeep-for= \"9h\"\n  background=true\n";
  setenv("RANKLOG_STATE_DIR", "/from/env", 1);
  setenv("RANKLOG_TRANSMIT_INTERVAL", "3s", 1);
  auto printed = Printed({"--config", file.c_str(), "--keep-for", "8h", "--log-level=debug"});
  unsetenv("RANKLOG_STATE_DIR");
  unsetenv("RANKLOG_TRANSMIT_INTERVAL");
  using Setting = std::pair<std::string, std::string>;
  EXPECT_EQ(printed["drain"], Setting("\"5s\"", file + ":2"));
  EXPECT_EQ(printed["keep-for"], Setting("\"8h\"", "--keep-for"));
  EXPECT_EQ(printed["background"], Setting("true", file + ":4"));
  EXPECT_EQ(printed["log-level"], Setting("\"debug\"", "--log-level"));
  EXPECT_EQ(printed["state-dir"], Setting("\"/from/env\"", "$RANKLOG_STATE_DIR"));
  EXPECT_EQ(printed["transmit-interval"], Setting("\"3s\"", "$RANKLOG_TRANSMIT_INTERVAL"));
  EXPECT_EQ(printed["keep-bytes"], Setting("\"4GiB\"", "default"));
  EXPECT_EQ(printed["core-dumps"], Setting("false", "default"));
  EXPECT_EQ(printed["#metrics-port"], Setting("\"\"", "default"));
  EXPECT_EQ(printed.count("config"), 0u);
}

TEST(ConfigTest, EmptyVariableCountsAsUnset) {
  for (const char* value : {"", " \n"}) {
    setenv("RANKLOG_TRANSMIT_INTERVAL", value, 1);
    auto printed = Printed({});
    unsetenv("RANKLOG_TRANSMIT_INTERVAL");
    EXPECT_EQ(printed["transmit-interval"].second, "default");
  }
}

TEST(ConfigTest, VariableLosesWhiteSpaceAroundIt) {
  const std::pair<const char*, const char*> variables[] = {{"RANKLOG_ADDRESS", " unix:/d/s.sock\n"},
                                                           {"RANKLOG_STATE_DIR", "/s\n"},
                                                           {"RANKLOG_SPOOL_DIR", "/x\n"},
                                                           {"RANKLOG_TRANSMIT_INTERVAL", "3s\n"}};
  for (const auto& [name, value] : variables) setenv(name, value, 1);
  const Parsed parsed = Parse({});
  for (const auto& [name, value] : variables) unsetenv(name);
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_EQ(parsed.config.socket_path, "/d/s.sock");
  EXPECT_THAT(parsed.config.state_dirs, ElementsAre("/s"));
  EXPECT_EQ(parsed.config.spool_dirs.front(), "/x");
  EXPECT_EQ(parsed.config.transmit_interval, absl::Seconds(3));
}

TEST(ConfigTest, PrintedSettingsAreAConfigurationFile) {
  testing::TempDir dir;
  const std::string file = dir.File("printed.toml");
  std::ofstream(file) << Parse({"--state-dir", "/s", "--drain", "2m", "--metrics-port", "9464",
                                "--print-config"})
                             .text;
  const Parsed parsed = Parse({"--config", file.c_str()});
  ASSERT_TRUE(parsed.run) << parsed.text;
  EXPECT_THAT(parsed.config.state_dirs, ElementsAre("/s"));
  EXPECT_EQ(parsed.config.drain, absl::Minutes(2));
  EXPECT_EQ(parsed.config.metrics_port, 9464);
  EXPECT_EQ(parsed.config.socket_path, Parse({}).config.socket_path);
}

TEST(ConfigTest, QuotedValuesKeepSpecialCharacters) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  const auto state_dir = [&](const std::string& line) {
    std::ofstream(file) << "# ours\n" << line << "\ndrain = \"2m\" # \"two\"\n";
    const Parsed parsed = Parse({"--config", file.c_str()});
    EXPECT_EQ(parsed.config.drain, absl::Minutes(2)) << parsed.text;
    return parsed.config.state_dirs.front();
  };
  EXPECT_EQ(state_dir("state-dir = \"/data/run#1/log\""), "/data/run#1/log");
  EXPECT_EQ(state_dir("state-dir = '/data/run#1/a\\b'  # a comment"), "/data/run#1/a\\b");
  EXPECT_EQ(state_dir("state-dir=\"/a\\\"b\\\\c\"#"), "/a\"b\\c");
}

TEST(ConfigTest, RejectsBadQuotingWithLineNumber) {
  testing::TempDir dir;
  const std::string file = dir.File("c.toml");
  for (const char* line : {"drain = \"2m", "drain = \"2m\" s", "state-dir = \"C:\\dir\""}) {
    std::ofstream(file) << "# ours\n" << line << "\n";
    const Parsed parsed = Parse({"--config", file.c_str()});
    EXPECT_EQ(parsed.exit_code, 2) << line;
    EXPECT_THAT(parsed.text, StartsWith("ranklogd: " + file + ":2: ")) << line;
  }
  std::ofstream(file) << "ranklogd.drain = \"1s\"\n";
  EXPECT_THAT(Parse({"--config", file.c_str()}).text,
              HasSubstr(":1: unknown option 'ranklogd.drain'"));
}

TEST(ConfigTest, PrintedSettingsAreReadBackUnchanged) {
  testing::TempDir dir;
  const std::string file = dir.File("printed.toml");
  const std::string odd = "/data/run#1/\"a\" \\b\t'c'";
  std::ofstream(file) << Parse({"--state-dir", odd.c_str(), "--print-config"}).text;
  EXPECT_THAT(Parse({"--config", file.c_str()}).config.state_dirs, ElementsAre(odd));
}

TEST(ConfigTest, MetricsPortIsConfigurable) {
  EXPECT_EQ(Parse({"--state-dir", "/s"}).config.metrics_port, absl::nullopt);
  EXPECT_EQ(Parse({"--metrics-port", "0"}).config.metrics_port, 0);
  for (const char* port : {"-1", "65536", "http", ""}) {
    EXPECT_EQ(Parse({"--metrics-port", port}).exit_code, 2) << port;
  }
}

TEST(ConfigTest, ExampleFileListsOptionsWithDefaults) {
  std::map<std::string, std::string> options;  // options of --help, with their defaults
  std::istringstream help(Parse({"--help"}).text);
  const std::regex option("  --([a-z-]+)(?: [^ =]*=([^ ]+))?.*");
  for (std::string line; std::getline(help, line);) {
    std::smatch match;
    if (std::regex_match(line, match, option)) options[match[1]] = match[2];
  }
  options.erase("version");
  options.erase("config");
  options.erase("print-config");
  ASSERT_EQ(options["keep-for"], "168h");

  testing::TempDir dir;
  const std::string as_it_is = dir.File("as_it_is.toml");
  const std::string with_all = dir.File("with_all.toml");
  std::map<std::string, std::string> keys;
  {
    std::ifstream example(EXAMPLE_FILE);
    std::ofstream copy(as_it_is);
    std::ofstream all(with_all);
    const std::regex key("#([a-z-]+) = \"?([^\"]*)\"?");
    for (std::string line; std::getline(example, line);) {
      std::smatch match;
      copy << line << "\n";
      if (!std::regex_match(line, match, key)) continue;
      all << line.substr(1) << "\n";
      const auto known = options.find(match[1]);
      const bool varies = known != options.end() && known->second.empty();  // has no fixed default
      keys[match[1]] = varies ? "" : match[2].str();
    }
  }
  EXPECT_EQ(keys, options);
  for (const std::string& file : {as_it_is, with_all}) {
    const Parsed parsed = Parse({"--config", file.c_str()});
    EXPECT_TRUE(parsed.run) << parsed.text;
    Config expected = Parse({}).config;
    if (file == with_all) {
      expected.state_dirs = {"/local/ranklog"};
      expected.spool_dirs.insert(expected.spool_dirs.begin(), "/local/spools");
    }
    EXPECT_EQ(parsed.config.state_dirs, expected.state_dirs);
    EXPECT_EQ(parsed.config.spool_dirs, expected.spool_dirs);
    EXPECT_FALSE(parsed.config.core_dumps);
  }
}

TEST(ConfigTest, UnknownFlagIsRejectedByName) {
  for (const char* unknown : {"--nonsense", "nonsense"}) {
    const Parsed parsed = Parse({unknown});
    EXPECT_FALSE(parsed.run);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.text, AllOf(HasSubstr(unknown), HasSubstr("--help")));
  }
}

TEST(ConfigTest, EnvironmentSetsMissingOptions) {
  setenv("RANKLOG_STATE_DIR", "/from/env", 1);
  setenv("RANKLOG_ADDRESS", "unix:/env.sock", 1);
  const Parsed parsed = Parse({});
  unsetenv("RANKLOG_STATE_DIR");
  unsetenv("RANKLOG_ADDRESS");
  EXPECT_THAT(parsed.config.state_dirs, ElementsAre("/from/env"));
  EXPECT_EQ(parsed.config.socket_path, "/env.sock");
}

// Sets a variable for the life of this object.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }

 private:
  const char* const name_;
};

TEST(ConfigTest, PeersHaveDefaults) {
  const ScopedVariable config_home("XDG_CONFIG_HOME", "/config");
  const Config config = Parse({}).config;
  EXPECT_EQ(config.peer_listen, (HostPort{"::", 20000 + static_cast<int>(geteuid() % 10000)}));
  EXPECT_EQ(config.peer_key_file, "/config/ranklog/peer.key");
  EXPECT_FALSE(config.peer_key_required);
  EXPECT_EQ(config.peer, absl::nullopt);
}

TEST(ConfigTest, PeersAreConfigurable) {
  testing::TempDir dir;
  const std::string key = dir.File("key");
  std::ofstream(key) << "x";
  const Config by_flag =
      Parse({"--peer-listen", "10.0.0.1:4000", "--peer-key", key.c_str(), "--peer", "node1"})
          .config;
  EXPECT_EQ(by_flag.peer_listen, (HostPort{"10.0.0.1", 4000}));
  EXPECT_EQ(by_flag.peer_key_file, key);
  EXPECT_TRUE(by_flag.peer_key_required);
  EXPECT_EQ(by_flag.peer, (HostPort{"node1", 4000})) << "all nodes have the same port";

  const ScopedVariable listen("RANKLOG_PEER_LISTEN", "none"), no_key("RANKLOG_PEER_KEY", "none"),
      peer("RANKLOG_PEER", "node2:5");
  const Config by_variable = Parse({}).config;
  EXPECT_EQ(by_variable.peer_listen, absl::nullopt);
  EXPECT_EQ(by_variable.peer_key_file, "");
  EXPECT_FALSE(by_variable.peer_key_required);
  EXPECT_EQ(by_variable.peer, (HostPort{"node2", 5}));
}

// The daemon may serve later jobs, whose rank 0 is elsewhere.
TEST(ConfigTest, RankStartedDaemonIgnoresItsRanksPeer) {
  const ScopedVariable started("RANKLOG_STARTED_BY", kRank), peer("RANKLOG_PEER", "node2"),
      key("RANKLOG_PEER_KEY", "/nowhere/key");
  const Parsed parsed = Parse({});
  EXPECT_TRUE(parsed.run) << parsed.text << "; rows matter more than statistics";
  EXPECT_EQ(parsed.config.peer, absl::nullopt);
  EXPECT_TRUE(parsed.config.peer_key_required);
}

TEST(ConfigTest, WrongPeerSettingsAreRefused) {
  for (const char* text : {"node1", "node1:", ":4000", "::1:4000", "node1:99999", ""}) {
    EXPECT_EQ(Parse({"--peer-listen", text}).exit_code, 2) << text;
  }
  EXPECT_THAT(Parse({"--peer-listen", "node1"}).text,
              HasSubstr("--peer-listen: 'node1' is not an address; use HOST:PORT, such as [::]:2"));
  EXPECT_EQ(Parse({"--peer", "http://node1"}).exit_code, 2);
  EXPECT_THAT(Parse({"--peer-key", "/nowhere/key"}).text,
              HasSubstr("--peer-key: cannot read /nowhere/key: No such file or directory; run: "
                        "ranklog peer-key /nowhere/key"));
}

TEST(ConfigTest, UsageErrorReturnsTwoHelpZero) {
  EXPECT_EQ(Parse({"--drain", "-3s"}).exit_code, 2);
  EXPECT_EQ(Parse({"--log-level", "loud"}).exit_code, 2);
  EXPECT_THAT(Parse({"--log-level", "loud"}).text, StartsWith("ranklogd: --log-level"));
  EXPECT_EQ(Parse({"--listen", "/no/scheme"}).exit_code, 2);
  EXPECT_EQ(Parse({"--help"}).exit_code, 0);
  EXPECT_THAT(Parse({"--help"}).text, HasSubstr("Examples"));
  EXPECT_THAT(Parse({"--version"}).text, HasSubstr("ranklogd"));
}

}  // namespace
}  // namespace ranklog::daemon
