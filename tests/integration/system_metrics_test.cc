// System metrics and metadata with real programs: at the tracker, and in the commands that show
// them. S12, S55.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/integration/counting_job.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class SystemMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }
  // The environment of a job that delivers to `wandb_`.
  std::map<std::string, std::string> With(std::map<std::string, std::string> more = {}) const {
    more.merge(WandbAt(wandb_.url()));
    return more;
  }
  bool IsSampledTwice(const std::string& run) const {
    return WaitFor([&] { return wandb_.run(run).events.size() >= 2; });
  }
  // Ends `job`, and waits until the tracker has the end of `run`.
  void End(CountingJob& job, const std::string& run) const {
    EXPECT_EQ(job.Finish(), 0);
    EXPECT_TRUE(WaitFor([&] { return wandb_.run(run).complete; })) << node_.Log();
    EXPECT_THAT(wandb_.errors(), IsEmpty());
  }
  std::string Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.stdout_only = true;
    const Finished finished = RunToEnd(args, options);
    EXPECT_EQ(finished.code, 0) << finished.output;
    return finished.output;
  }

  FakeWandb wandb_;
  Node node_{{"--sample-interval", "100ms", "--transmit-interval", "50ms"}};
};

TEST_F(SystemMetricsTest, ReachTheTrackerAndTheCommands) {
  CountingJob job(node_, "job", 10, With());
  ASSERT_TRUE(IsSampledTwice("job")) << node_.Log();
  End(job, "job");
  const FakeWandb::Run run = wandb_.run("job");
  const json event = json::parse(run.events.back());
  EXPECT_EQ(event["_wandb"], true);
  EXPECT_GT(event["system.memory_percent"], 0);
  EXPECT_GT(event["system.proc.memory.rssMB"], 0) << "of the rank";
  const json metadata = json::parse(run.files.at("wandb-metadata.json"));
  EXPECT_THAT(metadata["executable"].get<std::string>(), HasSubstr("counting_rank"));
  EXPECT_GE(metadata["cpu_count_logical"], 1);

  const json shown = json::parse(Ranklog({"show", "job", "--json"}));
  EXPECT_EQ(shown["samples"], run.events.size());
  EXPECT_EQ(shown["system"]["memory_percent"], event["system.memory_percent"]);
  EXPECT_EQ(shown["metadata"]["os"], metadata["os"]);
  const std::string url = shown["destinations"][0]["url"];
  EXPECT_THAT(url, StartsWith(wandb_.url()));
  const std::string text = Ranklog({"show", "job"});
  EXPECT_THAT(text, HasSubstr(url));
  EXPECT_THAT(text, HasSubstr("memory_percent"));

  const std::vector<std::string> rows = LinesOf(Ranklog({"export", "job", "--system"}));
  ASSERT_THAT(rows, SizeIs(run.events.size()));
  EXPECT_EQ(json::parse(rows.back())["_timestamp"], event["_timestamp"]);
  const std::vector<std::string> table = LinesOf(
      Ranklog({"export", "job", "--system", "--format", "csv", "--metric", "memory_percent"}));
  ASSERT_THAT(table, SizeIs(run.events.size() + 1));
  EXPECT_EQ(table[0], "_timestamp,memory_percent\r");
}

TEST_F(SystemMetricsTest, SettingsSwitchThemOff) {
  CountingJob job(node_, "job", 10,
                  With({{"RANKLOG_METADATA", "0"}, {"RANKLOG_SYSTEM_METRICS", "0"}}));
  CountingJob sampled(node_, "sampled", 10, With());
  ASSERT_TRUE(IsSampledTwice("sampled")) << node_.Log();
  End(job, "job");
  End(sampled, "sampled");
  EXPECT_THAT(wandb_.run("job").events, IsEmpty());
  EXPECT_EQ(wandb_.run("job").files.count("wandb-metadata.json"), 0u);
  EXPECT_EQ(Ranklog({"export", "job", "--system"}), "");
}

}  // namespace
}  // namespace ranklog::testing
