// A unique key is planted in a rank's environment. The tracker's server gets it, and it is nowhere
// else afterwards, though that server repeats it in its errors.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/counting_job.h"
#include "tests/integration/processes.h"
#include "tests/support/fake_wandb.h"
#include "tests/support/file_content.h"

namespace ranklog::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

constexpr uint64_t kKeyRows = 50;
constexpr char kJob[] = "planted-job";

std::string RandomKey() {
  std::random_device random;
  std::string key;
  while (key.size() < 40) absl::StrAppend(&key, absl::Hex(random(), absl::kZeroPad8));
  return key;
}

class PlantedKeyTest : public ::testing::Test {
 protected:
  PlantedKeyTest() {
    wandb_.RequireKey(key_);
    wandb_.EchoKeys();
    wandb_.Inject({.on = FakeWandb::Fault::On::kGraphql, .code = 500});
    wandb_.Inject({.on = FakeWandb::Fault::On::kFileStream, .code = 500});
    // One row becomes a dead letter, stored with the server's answer.
    wandb_.RefuseLines(
        [](const std::string& line) { return ParseExtendedJson(line).value("n", 0) == 7; });
  }

  std::map<std::string, std::string> RankEnvironment() const {
    return {{"WANDB_BASE_URL", wandb_.url()},
            {"WANDB_API_KEY", key_},
            {"RANKLOG_DESTINATIONS", "wandb"},
            {"RANKLOG_TRANSMIT_INTERVAL", "20ms"}};
  }
  std::string Ranklog(const Node& node, std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node.state_dir()});
    const Finished finished =
        RunToEnd(args, {.environment = {}, .unset = {"WANDB_API_KEY"}, .output = ""});
    EXPECT_EQ(finished.code, 0) << args[1] << ": " << finished.output;
    return finished.output;
  }

  // A server that refuses a read-back repeats the key in its answer.
  void ExpectVerifyToKeepTheKey(const Node& node) {
    wandb_.Inject({.on = FakeWandb::Fault::On::kGraphql, .code = 403});
    const Finished finished =
        RunToEnd({RANKLOG_CLI, "verify", kJob, "--state-dir", node.state_dir()},
                 {.environment = {{"WANDB_API_KEY", key_}}, .unset = {}, .output = ""});
    EXPECT_EQ(finished.code, 1);
    EXPECT_THAT(finished.output, HasSubstr("you sent Authorization"));
    EXPECT_THAT(finished.output, Not(HasSubstr(key_)));
    EXPECT_THAT(finished.output, Not(HasSubstr(basic_)));
  }

  // Returns everything readable about the node, by the name of the place.
  std::map<std::string, std::string> AllThatIsThere(const Node& node, pid_t daemon) const {
    std::map<std::string, std::string> places;
    const auto root = std::filesystem::path(node.state_dir()).parent_path();
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) places[entry.path()] = FileContent(entry.path());
    }
    for (const char* file : {"cmdline", "environ"}) places[file] = ReadProc(daemon, file);
    for (const std::vector<std::string>& args : {std::vector<std::string>{"status", "--json"},
                                                 {"status"},
                                                 {"runs", "--json"},
                                                 {"show", kJob},
                                                 {"show", kJob, "--json"},
                                                 {"dead", kJob},
                                                 {"dead", kJob, "--json"},
                                                 {"export", kJob}}) {
      places[absl::StrCat("ranklog ", args[0], args.size())] = Ranklog(node, args);
    }
    return places;
  }
  // Returns the places that contain `text`.
  static std::vector<std::string> PlacesWith(const std::map<std::string, std::string>& places,
                                             const std::string& text) {
    std::vector<std::string> found;
    for (const auto& [place, content] : places) {
      if (content.find(text) != std::string::npos) found.push_back(place);
    }
    return found;
  }
  void ExpectTheKeyIsNowhere(const Node& node, pid_t daemon) const {
    const auto places = AllThatIsThere(node, daemon);
    EXPECT_THAT(PlacesWith(places, key_), IsEmpty());
    EXPECT_THAT(PlacesWith(places, basic_), IsEmpty());
    // To show that these are the right files: they contain the job and the server's answers.
    EXPECT_THAT(PlacesWith(places, kJob), Contains(StartsWith(node.state_dir() + "/ranklog.db")));
    EXPECT_THAT(PlacesWith(places, "you sent Authorization"),
                Contains(StartsWith(node.state_dir() + "/ranklog.db")));
  }

  // Runs through the life of a run whose rank logs, fails to deliver, delivers, and ends.
  void RunAJob(const Node& node, CountingJob& job, const std::function<pid_t()>& daemon) {
    ASSERT_TRUE(job.WaitForReturned(kKeyRows));
    ASSERT_TRUE(WaitFor([&] { return node.GetRun(kJob).id != 0; }));
    const auto has_letter = [&] {
      const auto letters = node.Reader()->DeadLetters(node.GetRun(kJob).id);
      return letters.ok() && !letters->empty();
    };
    ASSERT_TRUE(WaitFor(has_letter, absl::Seconds(90))) << "the server's answer was kept nowhere";
    EXPECT_THAT(ReadProc(job.rank().pid(), "environ"), HasSubstr(key_));
    ExpectTheKeyIsNowhere(node, daemon());  // while its ring exists

    EXPECT_EQ(job.Finish(), 0);
    ASSERT_TRUE(wandb_.WaitForEnd(kJob));
    ExpectTheKeyIsNowhere(node, daemon());
    for (const FakeWandb::Request& request : wandb_.requests()) {
      const bool store_of_files = request.path.rfind("/storage/", 0) == 0;  // gets no key
      EXPECT_EQ(request.authorization, store_of_files ? "" : "Basic " + basic_);
      EXPECT_EQ(request.path.find(key_), std::string::npos);
      EXPECT_EQ(request.body.find(key_), std::string::npos);
    }
  }

  const std::string key_ = RandomKey();
  const std::string basic_ = absl::Base64Escape("api:" + key_);
  FakeWandb wandb_;
};

TEST_F(PlantedKeyTest, RankStartedDaemonLeaksNoKey) {
  const Node node;
  const auto daemons = [&] { return ProcessesWith(node.state_dir()); };
  std::map<std::string, std::string> environment = RankEnvironment();
  environment.insert({{"RANKLOG_START_DAEMON", "true"},
                      {"RANKLOG_DAEMON", RANKLOGD},
                      {"RANKLOG_STATE_DIR", node.state_dir()}});
  {
    CountingJob job(node, kJob, kKeyRows, environment);
    RunAJob(node, job, [&] {
      EXPECT_THAT(daemons(), SizeIs(1));
      return daemons().empty() ? 0 : daemons()[0];
    });
  }
  for (const pid_t pid : daemons()) kill(pid, SIGKILL);
}

TEST_F(PlantedKeyTest, DebugLoggingLeaksNoKey) {
  Node node({"--log-level", "debug", "--transmit-interval", "20ms"});
  node.Start();
  CountingJob job(node, kJob, kKeyRows, RankEnvironment());
  RunAJob(node, job, [&] { return node.daemon().pid(); });
  ExpectVerifyToKeepTheKey(node);
}

}  // namespace
}  // namespace ranklog::testing
