// The disk under the store fills up, or becomes read-only. That is reported once and counted, no
// row is lost, and the training continues. A network disk is refused.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/time/clock.h"
#include "tests/integration/counting_job.h"
#include "tests/support/absent.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// So small that it fills at once when the daemon takes nothing.
const std::map<std::string, std::string> kSmallSpool = {{"RANKLOG_SPOOL_BYTES", "1048576"}};

// Takes all free space of the file system until its destruction.
class Filler {
 public:
  explicit Filler(std::string path) : path_(std::move(path)) {
    const int fd = open(path_.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    const std::string block(4096, 'x');
    while (write(fd, block.data(), block.size()) > 0) {
    }
    close(fd);
  }
  ~Filler() { std::filesystem::remove(path_); }

  void LeaveRoomFor(uint64_t bytes) const {
    std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - bytes);
  }

 private:
  const std::string path_;
};

class DiskTest : public ::testing::Test {
 protected:
  // Waits until the daemon has tried several times, and the rank has met a full ring.
  void ExpectToBeHeldUp(const CountingJob& counting) {
    const uint64_t failed = node_.Counter("store.failed_commits");
    ASSERT_TRUE(WaitFor([&] { return node_.Counter("store.failed_commits") >= failed + 3; }));
    ASSERT_TRUE(WaitFor([&] { return counting.refused() > 0; }));
  }
  // Checks that all rows are taken, and that the rows that Log() refused are counted.
  void ExpectAllOf(CountingJob& counting) {
    ASSERT_TRUE(
        counting.WaitForReturned(counting.returned() + 50'000));  // more than the ring holds
    EXPECT_EQ(counting.Finish(), 0);
    ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
    counting.ExpectEveryReturnedRowOnce();
    EXPECT_EQ(counting.Stream().losses.ring_full, counting.refused());
  }

  Node node_;
};

TEST_F(DiskTest, DaemonContinuesOnceSpaceIsFreed) {  // S22
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "64m");
  ASSERT_TRUE(disk.mounted());
  node_.Start();
  CountingJob counting(node_, "job", 0, kSmallSpool);
  ASSERT_TRUE(counting.WaitForReturned(1000));
  {
    const Filler filler(node_.state_dir() + "/filler");
    ExpectToBeHeldUp(counting);
    EXPECT_EQ(node_.LogCount("the daemon cannot store rows"),
              node_.LogCount("the daemon stores rows again") + 1);
    // A rank that ends now waits only until its deadline. The daemon gets its rows later.
    ChildProcess late =
        node_.StartRank("late", 0, 0, 1, 1, {"100"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "200"}});
    EXPECT_EQ(late.Wait(), 3) << late.Output();
  }
  ExpectAllOf(counting);
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("late"); }));
  EXPECT_EQ(node_.GetRun("late").state, model::RunState::kFinished);
  EXPECT_EQ(node_.GetRun("late").rows, 100u);
  EXPECT_GE(node_.LogCount("the daemon stores rows again"), 1);
}

TEST_F(DiskTest, DaemonThatCannotStoreIsNotIdle) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  Node node({"--idle-exit", "4s"});
  const SmallDisk disk(node.state_dir(), "64m");
  ASSERT_TRUE(disk.mounted());
  node.Start();
  {
    const Filler filler(node.state_dir() + "/filler");
    ChildProcess rank =
        node.StartRank("job", 0, 0, 1, 1, {"100"}, {{"RANKLOG_FINISH_TIMEOUT_MS", "200"}});
    EXPECT_EQ(rank.Wait(), 3) << rank.Output();
    absl::SleepFor(absl::Seconds(6));
    EXPECT_EQ(node.LogCount("--idle-exit"), 0);
  }
  EXPECT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); }));
  EXPECT_EQ(node.GetRun("job").rows, 100u);
}

// `ranklog sync` does not wait for space like a daemon, since a user waits for it.
TEST_F(DiskTest, FullDiskEndsASync) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "16m");
  ASSERT_TRUE(disk.mounted());
  const FakeWandb wandb;
  node_.Start();
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"100"},
                      {{"RANKLOG_DESTINATIONS", "local"}, {"WANDB_BASE_URL", wandb.url()}});
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.Terminate(), 0);
  ChildProcess::Options options;
  options.environment = {{"WANDB_API_KEY", std::string(40, 'k')}};
  const auto sync = [&](std::vector<std::string> args) {
    args.insert(args.begin(), {RANKLOG_CLI, "--state-dir", node_.state_dir(), "sync"});
    return RunToEnd(args, options);
  };
  {
    // The destination cannot be stored.
    const Filler filler(node_.state_dir() + "/filler");
    // First no space at all; then enough for the log's index, but not for a commit.
    for (const uint64_t room : {0, 40 << 10}) {
      filler.LeaveRoomFor(room);
      const Finished none = sync({"latest", "--to", "wandb"});
      EXPECT_EQ(none.code, 1) << none.output;
      EXPECT_THAT(none.output, ContainsRegex("disk is full|No space left")) << room;
    }
  }
  EXPECT_EQ(sync({"latest", "--to", "wandb"}).code, 0);
  EXPECT_TRUE(wandb.run("job").complete);
}

// The same when only the delivery loop can report it: the delivered rows cannot be marked in the
// store.
TEST_F(DiskTest, SyncReportsAFullDisk) {
  SKIP_WITHOUT(HasOwnMounts(), "the right to mount");
  const SmallDisk disk(node_.state_dir(), "16m");
  ASSERT_TRUE(disk.mounted());
  FakeWandb wandb;
  node_.Start();
  ChildProcess rank =
      node_.StartRank("job", 0, 0, 1, 1, {"100"},
                      {{"RANKLOG_DESTINATIONS", "wandb"}, {"WANDB_BASE_URL", wandb.url()}});
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  ASSERT_TRUE(WaitFor([&] { return node_.RunHasEnded("job"); }));
  EXPECT_EQ(node_.Terminate(), 0);
  const Filler filler(node_.state_dir() + "/filler");
  filler.LeaveRoomFor(40 << 10);
  ChildProcess::Options options;
  options.environment = {{"WANDB_API_KEY", std::string(40, 'k')}};
  const Finished full = RunToEnd(
      {RANKLOG_CLI, "--state-dir", node_.state_dir(), "sync", "--timeout", "500ms"}, options);
  EXPECT_EQ(full.code, 1) << full.output;
  EXPECT_THAT(full.output, HasSubstr("cannot write the store, retrying: "));
  EXPECT_THAT(full.output, HasSubstr("cannot write the store: "));
}

// An own ext4, because it can become read-only under open files. Only a new mount makes it writable
// again, for which the daemon must have closed it.
class DiskThatFails {
 public:
  explicit DiskThatFails(std::string path) : path_(std::move(path)) {
    std::ofstream(image_).close();
    std::filesystem::resize_file(image_, 64 << 20);
    std::filesystem::create_directories(path_);
    made_ = RunToEnd({"mkfs.ext4", "-q", "-E", "root_owner", image_}).code == 0;
  }
  ~DiskThatFails() { umount2(path_.c_str(), MNT_DETACH); }

  bool Mount() {
    std::error_code ignored;
    if (!made_ || RunToEnd({"mount", "-o", "loop", image_, path_}).code != 0) return false;
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all, ignored);
    return true;
  }
  bool Fail() const { return RunToEnd({"mount", "-o", "remount,abort", path_}).code == 0; }
  bool Unmount() const { return umount(path_.c_str()) == 0; }

 private:
  const TempDir dir_;
  const std::string image_ = dir_.File("image");
  const std::string path_;
  bool made_ = false;
};

TEST_F(DiskTest, RestartContinuesAfterReadOnlyDisk) {  // S22
  SKIP_WITHOUT(HasOwnMounts() && InPath("mkfs.ext4"), "the right to mount, mkfs.ext4");
  DiskThatFails disk(node_.state_dir());
  // A container may not have loop devices. store_faults_test checks without a kernel that the
  // daemon waits after EROFS.
  SKIP_WITHOUT(disk.Mount(), "loop devices of this kernel or container");
  node_.Start();
  CountingJob counting(node_, "job", 0, kSmallSpool);
  ASSERT_TRUE(counting.WaitForReturned(1000));
  ASSERT_TRUE(disk.Fail());
  ExpectToBeHeldUp(counting);
  // A sync that was in flight may have failed with another error before.
  EXPECT_EQ(node_.LogCount("Read-only file system"), 1u);
  EXPECT_EQ(node_.Terminate(), 0);
  ASSERT_TRUE(disk.Unmount());
  ASSERT_TRUE(disk.Mount());
  node_.Start();
  ExpectAllOf(counting);
}

// The real sshfs. Its server is at the other end of two pipes instead of a network.
class RemoteDisk {
 public:
  explicit RemoteDisk(std::string path) : path_(std::move(path)) {
    std::filesystem::create_directories(path_);
    const std::string script = "coproc " + std::string(kServer) +
                               "; exec sshfs -f -o passive node:" + dir_.path() + " " + path_ +
                               " <&${COPROC[0]} >&${COPROC[1]}";
    sshfs_.emplace(std::vector<std::string>{"bash", "-c", script});
  }
  ~RemoteDisk() { umount2(path_.c_str(), MNT_DETACH); }

  static constexpr char kServer[] = "/usr/lib/openssh/sftp-server";
  // Waits until a file written in one directory is visible in the other.
  bool WaitForMount() const {
    std::ofstream(dir_.File("there")).close();
    return WaitFor([&] { return std::filesystem::remove(path_ + "/there"); });
  }

 private:
  const TempDir dir_;
  const std::string path_;
  absl::optional<ChildProcess> sshfs_;
};

TEST_F(DiskTest, NetworkDiskIsRefusedWithAdvice) {  // S22, S44
  SKIP_WITHOUT(HasOwnMounts() && InPath("sshfs") && std::filesystem::exists(RemoteDisk::kServer),
               "the right to mount, sshfs, sftp-server");
  SKIP_WITHOUT(std::filesystem::exists("/dev/fuse"), "FUSE of this kernel or container");
  const RemoteDisk disk(node_.state_dir());
  ASSERT_TRUE(disk.WaitForMount());
  const Finished refused =
      RunToEnd({RANKLOGD, "--state-dir", node_.state_dir(), "--listen", node_.address()}, {});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.output, HasSubstr("is on sshfs, a network file system"));
  EXPECT_THAT(refused.output, HasSubstr("--state-dir"));
  EXPECT_TRUE(std::filesystem::is_empty(node_.state_dir()));

  node_.StartWith({{"RANKLOG_ALLOW_NETWORK_FILE_SYSTEM", "1"}});
  CountingJob counting(node_, "job", 0, kSmallSpool);
  ExpectAllOf(counting);
}

}  // namespace
}  // namespace ranklog::testing
