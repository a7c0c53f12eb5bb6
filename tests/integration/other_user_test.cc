// A real second user on the same node reads nothing that was logged, reaches no key, and is refused
// by the daemon, which continues.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/counting_job.h"
#include "tests/integration/processes.h"
#include "tests/support/absent.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr char kOther[] = "65534";  // the user nobody

// A rank that logs, and the daemon that it started, which has its own log file.
class OtherUserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(geteuid() == 0, "root, to become another user");
    umask(0);  // so that only our own file modes protect the files
    std::filesystem::create_directory(node_.state_dir());
    chmod(node_.state_dir().c_str(), 0700);
    std::ofstream(Credentials()) << "machine api.wandb.ai login user password secret\n";
    chmod(Credentials().c_str(), 0600);
    counting_ = std::make_unique<CountingJob>(
        node_, "job", /*rows=*/0,
        std::map<std::string, std::string>{{"RANKLOG_START_DAEMON", "true"},
                                           {"RANKLOG_DAEMON", RANKLOGD},
                                           {"RANKLOG_STATE_DIR", node_.state_dir()},
                                           {"RANKLOG_DESTINATIONS", "local"},
                                           {"RANKLOG_SPOOL_BYTES", "65536"}});
    ASSERT_TRUE(counting_->WaitForReturned(10'000)) << "no daemon frees the ring";
    ASSERT_TRUE(WaitFor([&] { return Logged("listens at"); }));
  }
  ~OtherUserTest() override {
    umask(umask_);
    for (const pid_t pid : ProcessesWith(node_.state_dir())) kill(pid, SIGKILL);
  }

  std::string Directory() const { return std::filesystem::path(node_.state_dir()).parent_path(); }
  std::string Credentials() const { return node_.state_dir() + "/credentials"; }
  bool Logged(const std::string& text) const {
    return FileContent(Directory() + "/ranklogd.log").find(text) != std::string::npos;
  }

  // Returns all paths of the node: directories, files and the socket.
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths = {Directory()};
    for (const auto& entry : std::filesystem::recursive_directory_iterator(Directory())) {
      paths.push_back(entry.path());
    }
    return paths;
  }
  static std::string WhatCanBeDoneBy(const std::string& uid, std::vector<std::string> paths) {
    paths.insert(paths.begin(), {OTHER_USER, uid});
    const Finished finished = RunToEnd(paths);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }

  void ExpectTheJobGoesOn() {
    const uint64_t before = counting_->returned();
    EXPECT_TRUE(counting_->WaitForReturned(before + 20'000));  // far more than the ring holds
    EXPECT_EQ(counting_->Finish(), 0);
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    counting_->ExpectEveryReturnedRowOnce();
    EXPECT_THAT(ProcessesWith(node_.state_dir()), SizeIs(1));
  }

  const mode_t umask_ = umask(022);
  Node node_;
  std::unique_ptr<CountingJob> counting_;
};

TEST_F(OtherUserTest, CannotAccessAnyFile) {
  // First what the owner can do, to see that there is something to reach.
  const std::vector<std::string> paths = Paths();
  const std::string owner = WhatCanBeDoneBy(std::to_string(geteuid()), paths);
  for (const char* file :
       {"/state/ranklog.db\n", "/state/ranklog.db-wal\n", "/state/lock\n", "/state/credentials\n",
        "/ranklogd.log\n", "/start.lock\n", ".spool\n"}) {
    EXPECT_THAT(owner, HasSubstr(file));
  }
  EXPECT_THAT(owner, AllOf(HasSubstr("reads "), HasSubstr("writes "), HasSubstr("makes files in "),
                           HasSubstr("is heard at " + node_.socket())));

  EXPECT_EQ(WhatCanBeDoneBy(kOther, paths), "");
  ExpectTheJobGoesOn();
}

// Somebody has opened the directories to all users, as a tool that "repairs" permissions may.
TEST_F(OtherUserTest, ReachesNothingInTraversableDirectories) {
  for (const std::string& path : Paths()) {
    if (std::filesystem::is_directory(path)) chmod(path.c_str(), 0711);
  }
  EXPECT_EQ(WhatCanBeDoneBy(kOther, Paths()), "");
  ExpectTheJobGoesOn();
}

TEST_F(OtherUserTest, IsRefusedAtAnOpenSocket) {
  chmod(Directory().c_str(), 0755);
  chmod(node_.socket().c_str(), 0666);
  EXPECT_FALSE(Logged("refused a process of user"));
  EXPECT_THAT(WhatCanBeDoneBy(kOther, {node_.socket()}),
              AllOf(HasSubstr("connects to " + node_.socket()), Not(HasSubstr("heard"))));
  EXPECT_TRUE(WaitFor([&] { return Logged(std::string("refused a process of user ") + kOther); }));
  ExpectTheJobGoesOn();
}

}  // namespace
}  // namespace ranklog::testing
