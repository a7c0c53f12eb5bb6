// Another user plants things where Ranklog looks for its files: links to our files, pipes that
// block a reader, and own files and directories. Ranklog writes, empties or removes nothing of ours
// through them. Nothing waits, and anything unusable is reported.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "service/storage/directories/state_lock.h"
#include "service/storage/store.h"
#include "tests/integration/node.h"
#include "tests/integration/processes.h"
#include "tests/support/absent.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uid_t kOtherUser = 65534;  // the user nobody
constexpr char kContent[] = "what must stay";
constexpr absl::Duration kHang = absl::Seconds(60);

enum class Kind { kLink, kLinkToNothing, kHardLink, kPipe, kFile, kLinkToDirectory, kDirectory };
const std::vector<Kind> kFiles = {Kind::kLink, Kind::kLinkToNothing, Kind::kHardLink, Kind::kPipe,
                                  Kind::kFile};
const std::vector<Kind> kDirectories = {Kind::kLinkToDirectory, Kind::kDirectory, Kind::kPipe,
                                        Kind::kFile};

const char* NameOf(Kind kind) {
  constexpr const char* kNames[] = {"link",
                                    "link to nothing",
                                    "hard link",
                                    "pipe",
                                    "a file of theirs",
                                    "link to a directory",
                                    "a directory of theirs"};
  return kNames[static_cast<size_t>(kind)];
}

class PlantedPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT(geteuid() == 0, "root, to leave files of another user");
    fs::permissions(shared_.path(), fs::perms::all | fs::perms::sticky_bit);  // like /tmp
    fs::create_directory(home_.File("directory"));
    Restore();
  }

  void Restore() {
    for (const char* file : {"victim", "directory/victim"}) {
      std::ofstream(home_.File(file)) << kContent;
    }
  }

  // Plants it like a user who may write the directory.
  void Plant(const std::string& path, Kind kind) {
    fs::remove_all(path);
    bool made = true;
    switch (kind) {
      case Kind::kLink:
        made = symlink(home_.File("victim").c_str(), path.c_str()) == 0;
        break;
      case Kind::kLinkToNothing:
        made = symlink(home_.File("none").c_str(), path.c_str()) == 0;
        break;
      case Kind::kHardLink:
        made = link(home_.File("victim").c_str(), path.c_str()) == 0;
        break;
      case Kind::kPipe:
        made = mkfifo(path.c_str(), 0666) == 0;
        break;
      case Kind::kFile:
        std::ofstream(path) << "theirs";
        break;
      case Kind::kLinkToDirectory:
        made = symlink(home_.File("directory").c_str(), path.c_str()) == 0;
        break;
      case Kind::kDirectory:
        made = mkdir(path.c_str(), 0777) == 0;
        break;
    }
    ASSERT_TRUE(made) << path;
    // A hard link is our own file, so its owner stays.
    if (kind != Kind::kHardLink) {
      ASSERT_EQ(lchown(path.c_str(), kOtherUser, kOtherUser), 0);
    }
  }

  void ExpectUnhurt(const std::string& what) {
    for (const char* file : {"victim", "directory/victim"}) {
      EXPECT_EQ(FileContent(home_.File(file)), kContent) << what;
    }
    EXPECT_FALSE(fs::exists(home_.File("none"))) << what << ": a file was made through a link";
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(home_.File("directory"))) {
      found.push_back(entry.path().filename());
    }
    EXPECT_THAT(found, ::testing::ElementsAre("victim")) << what;
  }

  // Checks that the command ends, refuses with a message that names the path, and has damaged
  // nothing.
  void ExpectRefused(const std::vector<std::string>& args, const std::string& path,
                     const std::string& what) {
    const Finished finished = RunToEnd(args, {}, kHang);
    EXPECT_THAT(finished.code, AnyOf(1, 2)) << what << ": " << finished.output;
    EXPECT_THAT(finished.output, HasSubstr(path)) << what;
    ExpectUnhurt(what);
  }

  std::vector<std::string> DaemonAt(const std::string& state_dir, const std::string& socket) const {
    return {RANKLOGD,         "--state-dir", state_dir,          "--listen",
            "unix:" + socket, "--spool-dir", home_.File("spool")};
  }

  // Makes a store with a run in it; all of its files exist.
  void MakeStore(const std::string& state_dir) {
    const storage::StateLock lock = storage::StateLock::Acquire(state_dir).value();
    const auto store = storage::Store::Open(state_dir, {});
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE((*store)->Begin().ok());
    model::Session session;
    session.stream = {"gpt", "job", 0, /*incarnation=*/1};
    ASSERT_TRUE((*store)->Attach(session, {"job", "job", 0, true, false}, 1).ok());
    ASSERT_TRUE((*store)->Commit().ok());
  }

  TempDir home_;    // only ours
  TempDir shared_;  // writable for all users, but nobody can rename another user's files
};

TEST_F(PlantedPathsTest, TheStateDirectoryIsOursAlone) {
  const std::string state = shared_.File("state");
  for (const Kind kind : kDirectories) {
    Plant(state, kind);
    ExpectRefused(DaemonAt(state, home_.File("s")), state, NameOf(kind));
    ExpectRefused(DaemonAt(state + "/", home_.File("s")), state, NameOf(kind));
  }
  fs::remove_all(state);
  MakeStore(state);
  fs::permissions(state, fs::perms::all);
  ExpectRefused(DaemonAt(state, home_.File("s")), "chmod go-w " + state, "others may write it");
}

// The directory was once open to others, and their files are still in it.
TEST_F(PlantedPathsTest, TheStoresFilesAreOursAlone) {
  for (const char* file : {"lock", "ranklog.db", "ranklog.db-wal", "ranklog.db-shm"}) {
    for (const Kind kind : kFiles) {
      const std::string what = std::string(NameOf(kind)) + " as " + file;
      const std::string state = home_.File("state");
      fs::remove_all(state);
      MakeStore(state);
      Plant(state + "/" + file, kind);
      ExpectRefused(DaemonAt(state, home_.File("s")), state + "/" + file, what);
      // Reading commands change nothing and do not wait either, whether or not they can read it.
      for (const char* command : {"runs", "doctor"}) {
        const Finished looked = RunToEnd({RANKLOG_CLI, command, "--state-dir", state}, {}, kHang);
        EXPECT_THAT(looked.code, AnyOf(0, 1)) << what << ": " << looked.output;
        ExpectUnhurt(what);
      }
    }
  }
}

TEST_F(PlantedPathsTest, ReadableStoreFilesAreMadePrivate) {
  const std::string state = home_.File("state");
  MakeStore(state);
  for (const char* file : {"lock", "ranklog.db"}) {
    fs::permissions(state + "/" + file, static_cast<fs::perms>(0666));
  }
  MakeStore(state);
  for (const char* file : {"lock", "ranklog.db"}) {
    EXPECT_EQ(fs::status(state + "/" + file).permissions(), static_cast<fs::perms>(0600)) << file;
  }
}

TEST_F(PlantedPathsTest, TheSocketsDirectoryIsOursAlone) {
  const std::string dir = shared_.File("dir");
  for (const Kind kind : kDirectories) {
    Plant(dir, kind);
    ExpectRefused(DaemonAt(home_.File("state"), dir + "/s"), dir, NameOf(kind));
  }
  ExpectRefused(DaemonAt(home_.File("state"), shared_.File("s")), shared_.path(), "in /tmp");
}

// The directory is ours now, but others could write it before. The socket takes its name from
// whatever is there.
TEST_F(PlantedPathsTest, SocketReplacesFileOfSameName) {
  for (const Kind kind : kFiles) {
    Node node;
    Plant(node.socket(), kind);
    node.Start();
    EXPECT_EQ(node.StartRank("job", 0, 0, 1, 1, {"10"}).Wait(), 0) << NameOf(kind);
    EXPECT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); })) << NameOf(kind);
    ExpectUnhurt(NameOf(kind));
  }
}

TEST_F(PlantedPathsTest, RankAvoidsAnotherUsersSpoolDirectory) {
  const std::string spool = shared_.File("spool");
  for (const Kind kind : kDirectories) {
    Plant(spool, kind);
    Node node;
    node.Start();
    EXPECT_EQ(node.StartRank("job", 0, 0, 1, 1, {"10"}, {{"RANKLOG_SPOOL_DIR", spool}}).Wait(), 0);
    EXPECT_TRUE(WaitFor([&] { return node.RunHasEnded("job"); })) << NameOf(kind);
    EXPECT_EQ(node.GetRun("job").rows, 10u);
    ExpectUnhurt(NameOf(kind));
    if (kind == Kind::kDirectory) {
      EXPECT_TRUE(fs::is_empty(spool));
    }
  }
}

// A daemon started by a rank writes its log beside its socket.
TEST_F(PlantedPathsTest, DaemonStartsDespiteOccupiedLogPath) {
  for (const Kind kind : kFiles) {
    Node node;
    Plant(fs::path(node.state_dir()).parent_path() / "ranklogd.log", kind);
    ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"},
                                       {{"RANKLOG_START_DAEMON", "true"},
                                        {"RANKLOG_DAEMON", RANKLOGD},
                                        {"RANKLOG_STATE_DIR", node.state_dir()},
                                        {"RANKLOG_DESTINATIONS", "local"},
                                        {"RANKLOG_FINISH_TIMEOUT_MS", "60000"}});
    EXPECT_EQ(rank.Wait(), 0) << NameOf(kind) << rank.Output();
    for (const pid_t pid : ProcessesWith(node.state_dir())) kill(pid, SIGKILL);
    ExpectUnhurt(NameOf(kind));
  }
}

TEST_F(PlantedPathsTest, UnsafeLockOrDirectoryPreventsStart) {
  const auto expect_none = [&](const std::string& dir, const std::string& what) {
    Node node;
    ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"},
                                       {{"RANKLOG_ADDRESS", "unix:" + dir + "/s"},
                                        {"RANKLOG_START_DAEMON", "true"},
                                        {"RANKLOG_DAEMON", RANKLOGD},
                                        {"RANKLOG_STATE_DIR", node.state_dir()},
                                        {"RANKLOG_FINISH_TIMEOUT_MS", "500"}});
    EXPECT_EQ(rank.Wait(), 3) << what << rank.Output();  // spooled
    EXPECT_THAT(ProcessesWith(node.state_dir()), IsEmpty()) << what;
    ExpectUnhurt(what);
  };
  for (const Kind kind : kFiles) {
    const std::string dir = home_.File("run");
    fs::remove_all(dir);
    fs::create_directory(dir);
    fs::permissions(dir, fs::perms::owner_all);
    Plant(dir + "/start.lock", kind);
    expect_none(dir, NameOf(kind));
  }
  expect_none(shared_.path(), "in /tmp");
  EXPECT_TRUE(fs::is_empty(shared_.path()));
}

TEST_F(PlantedPathsTest, RecoverRemovesOnlyItsOwnFiles) {
  const std::string state = home_.File("state");
  MakeStore(state);
  const std::string to = shared_.File("saved");
  const std::vector<std::string> recover = {RANKLOG_CLI, "recover", state + "/ranklog.db", "--to",
                                            to};
  for (const Kind kind : kDirectories) {
    Plant(to + ".partial", kind);
    ExpectRefused(recover, to + ".partial", NameOf(kind));
  }
  fs::remove_all(to + ".partial");
  for (const Kind kind : kDirectories) {
    if (kind == Kind::kDirectory) continue;  // rename() may replace an empty directory
    Plant(to, kind);
    ExpectRefused(recover, to, NameOf(kind));
    fs::remove_all(to + ".partial");
  }
  fs::remove(to);
  // A directory of ours that recover did not make.
  fs::create_directory(to + ".partial");
  std::ofstream(to + ".partial/thesis.tex") << kContent;
  ExpectRefused(recover, "thesis.tex", "a directory of ours");
  EXPECT_EQ(FileContent(to + ".partial/thesis.tex"), kContent);
  fs::remove(to + ".partial/thesis.tex");
  std::ofstream(to + ".partial/ranklog.db") << "half";
  EXPECT_EQ(RunToEnd(recover).code, 0) << "what an interrupted one left is begun again";
}

TEST_F(PlantedPathsTest, ExportRefusesPlantedTargets) {
  const std::string state = home_.File("state");
  MakeStore(state);
  const std::string to = shared_.File("rows.csv");
  const std::vector<std::string> arguments = {RANKLOG_CLI, "export", "latest",      "--output", to,
                                              "--format",  "csv",    "--state-dir", state};
  for (const Kind kind : kFiles) {
    Plant(to, kind);
    ExpectRefused(arguments, to, NameOf(kind));
    if (kind == Kind::kFile) {
      EXPECT_EQ(FileContent(to), "theirs");
    }
  }
  fs::remove(to);
  EXPECT_EQ(RunToEnd(arguments).code, 0);
  EXPECT_EQ(RunToEnd(arguments).code, 0) << "its own file is written over";
  EXPECT_THAT(FileContent(to), Not(IsEmpty()));
  // In the user's own directory, a link is intended.
  fs::create_symlink(home_.File("linked"), home_.File("rows.csv"));
  std::vector<std::string> at_home = arguments;
  at_home[4] = home_.File("rows.csv");
  EXPECT_EQ(RunToEnd(at_home).code, 0);
  EXPECT_EQ(FileContent(home_.File("linked")), FileContent(to));
}

// `ranklog sync --to` sends keys to the daemon that answers.
TEST_F(PlantedPathsTest, CliSendsNothingToForeignDaemon) {
  const std::string path = shared_.File("s");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t other = fork();
  if (other == 0) {
    alarm(60);
    if (setgid(kOtherUser) != 0 || setuid(kOtherUser) != 0) _exit(2);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) _exit(2);
    if (listen(listener, 4) != 0 || write(ready[1], "y", 1) != 1) _exit(2);
    char byte;
    // It may read only the end of the stream.
    _exit(recv(accept(listener, nullptr, nullptr), &byte, 1, 0) == 0 ? 0 : 1);
  }
  close(ready[1]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  const Finished status = RunToEnd({RANKLOG_CLI, "status", "--address", "unix:" + path});
  EXPECT_THAT(status.output, HasSubstr("belongs to another user"));
  int end = -1;
  EXPECT_EQ(waitpid(other, &end, 0), other);
  EXPECT_EQ(end, 0) << "it was spoken to";
}

TEST_F(PlantedPathsTest, UntrustedConfigurationIsRejected) {
  const std::string config = shared_.File("ranklogd.toml");
  std::vector<std::string> arguments = DaemonAt(home_.File("state"), home_.File("s"));
  arguments.insert(arguments.end(), {"--config", config});
  for (const Kind kind : {Kind::kPipe, Kind::kFile}) {
    Plant(config, kind);
    ExpectRefused(arguments, config, NameOf(kind));
  }
  fs::remove(config);
  std::ofstream(config) << "drain = \"2m\"\n";
  fs::permissions(config, static_cast<fs::perms>(0666));
  ExpectRefused(arguments, "chmod o-w " + config, "others may write it");
}

}  // namespace
}  // namespace ranklog::testing
