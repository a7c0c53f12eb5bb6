// `ranklog peer-key`, and what `ranklog doctor` says about the key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/integration/cli_fixture.h"
#include "tests/integration/node.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

// A user with a home, a state directory, and no daemon.
class PeerKeyCommandTest : public ::testing::Test {
 protected:
  PeerKeyCommandTest() {
    for (const char* dir : {"home", "socket", "state"}) {
      std::filesystem::create_directory(dir_.File(dir));
      chmod(dir_.File(dir).c_str(), 0700);
    }
    options_.environment = {{"RANKLOG_ADDRESS", "unix:" + dir_.File("socket/d.sock")},
                            {"RANKLOG_STATE_DIR", dir_.File("state")},
                            {"HOME", dir_.File("home")}};
    options_.unset = {"XDG_CONFIG_HOME", "RANKLOG_PEER_KEY", "RANKLOG_PEER_LISTEN",
                      "WANDB_API_KEY",   "WANDB_BASE_URL",   "NETRC",
                      "http_proxy",      "RANKLOG_SPOOL_DIR"};
  }
  Finished Run(std::vector<std::string> args) {
    args.insert(args.begin(), RANKLOG_CLI);
    return RunToEnd(args, options_);
  }

  const TempDir dir_;
  const std::string path_ = dir_.File("home/.config/ranklog/peer.key");
  ChildProcess::Options options_;
};

TEST_F(PeerKeyCommandTest, MakesKeyAndTellsNextSteps) {
  const Finished made = Run({"peer-key"});
  EXPECT_EQ(made.code, 0);
  EXPECT_THAT(made.output,
              AllOf(HasSubstr("wrote " + path_), HasSubstr("fingerprint: SHA256:"),
                    HasSubstr("cat >" + path_ + "' <" + path_),
                    HasSubstr("ranklog doctor --peer NODE"), Not(HasSubstr("--peer-key"))));
  EXPECT_THAT(made.output, Not(HasSubstr("PRIVATE KEY")));
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(PeerKeyCommandTest, ReplacesNoKey) {
  Run({"peer-key"});
  const std::string before = FileContent(path_);
  const Finished again = Run({"peer-key"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.output, HasSubstr(path_ + " exists and was not replaced"));
  EXPECT_EQ(FileContent(path_), before);
}

TEST_F(PeerKeyCommandTest, OtherPlaceNeedsFlagOfDaemon) {
  const std::string path = dir_.File("key of us");
  EXPECT_THAT(Run({"peer-key", path}).output,
              HasSubstr("start daemons with --peer-key '" + path + "'"));
  options_.environment["RANKLOG_PEER_KEY"] = path;
  EXPECT_THAT(Run({"peer-key", "--show"}).output, HasSubstr(path));
}

TEST_F(PeerKeyCommandTest, ShowsKey) {
  const Finished none = Run({"peer-key", "--show"});
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.output,
              HasSubstr("there is no key in " + path_ + "; to make one, run: ranklog peer-key"));
  Run({"peer-key"});
  EXPECT_THAT(Run({"peer-key", "--show"}).output,
              AllOf(HasSubstr("valid until: 20"), HasSubstr("no daemon runs on this node")));
  const Json shown = Parse(Run({"peer-key", "--show", "--json"}).output);
  EXPECT_EQ(shown["path"], path_);
  EXPECT_EQ(shown["made"], false);
  EXPECT_TRUE(shown["daemon"].is_null());
  EXPECT_THAT(shown["fingerprint"].get<std::string>(), MatchesRegex("SHA256:[A-Za-z0-9+/]{43}"));
  EXPECT_GT(shown["expires"].get<int64_t>(), 2'000'000'000);
  chmod(path_.c_str(), 0644);
  EXPECT_THAT(Run({"peer-key", "--show"}).output, HasSubstr("run: chmod 600 " + path_));
}

TEST_F(PeerKeyCommandTest, NeedsPlaceForKey) {
  options_.environment["RANKLOG_PEER_KEY"] = "none";
  const Finished finished = Run({"peer-key"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_THAT(finished.output, HasSubstr("name a file: ranklog peer-key FILE"));
}

TEST_F(PeerKeyCommandTest, DoctorChecksKey) {
  EXPECT_THAT(Run({"doctor"}).output, Not(HasSubstr("peer key"))) << "most users have none";
  Run({"peer-key"});
  const Finished sound = Run({"doctor"});
  EXPECT_EQ(sound.code, 0) << sound.output;
  EXPECT_THAT(sound.output, HasSubstr("peer key    " + path_ + ", SHA256:"));
  chmod(path_.c_str(), 0640);
  const Finished open = Run({"doctor"});
  EXPECT_EQ(open.code, 1);
  EXPECT_THAT(open.output, HasSubstr("accessible to other users (mode 0640); run: chmod 600"));
  options_.environment["RANKLOG_PEER_KEY"] = dir_.File("absent");
  EXPECT_THAT(Run({"doctor"}).output,
              HasSubstr("run: ranklog peer-key " + dir_.File("absent") + ", or copy the file"));
}

TEST_F(PeerKeyCommandTest, DoctorConnectsToOtherNode) {
  const DeadPort refuses(DeadPort::kRefuses);
  const std::string other = "127.0.0.1:" + std::to_string(refuses.number());
  EXPECT_THAT(Run({"doctor", "--peer", other}).output,
              HasSubstr("this node has no key to connect with: " + path_));
  Run({"peer-key"});
  const Finished refused = Run({"doctor", "--peer", other});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("Connection refused; no daemon listens there"));
  EXPECT_EQ(Run({"doctor", "--peer", "http://node1"}).code, 2);
}

TEST_F(PeerKeyCommandTest, DoctorConnectsWithTheKeyOfTheDaemon) {
  const std::string key = dir_.File("home/key");
  Run({"peer-key", key});
  const int free = DeadPort(DeadPort::kRefuses, INADDR_LOOPBACK + 1).number();
  Node node({"--peer-key", key, "--peer-listen", "127.0.0.2:" + std::to_string(free)});
  node.Start();
  const Json daemon =
      Parse(Run({"status", "--json", "--address", node.address()}).output)["daemon"];
  EXPECT_THAT(
      Run({"doctor", "--address", node.address(), "--peer", daemon["peer"]["address"]}).output,
      HasSubstr("has the same key"));
}

}  // namespace
}  // namespace ranklog::testing
