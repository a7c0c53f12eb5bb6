// The fixture of tests that start a training again: the real ranklog-train with the real ranklogd.

#ifndef TESTS_TRAINER_RESUMING_H_
#define TESTS_TRAINER_RESUMING_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/node.h"

namespace ranklog::testing {

using nlohmann::json;

class ResumeTest : public ::testing::Test {
 protected:
  void SetUp() override { node_.Start(); }

  ChildProcess::Options Environment() const {
    ChildProcess::Options options;
    options.environment = {{"RANKLOG_ADDRESS", node_.address()},
                           {"RANKLOG_SPOOL_DIR", node_.spool_dir()},
                           {"RANKLOG_START_DAEMON", "false"},
                           {"RANKLOG_DESTINATIONS", "local"},
                           {"OMP_NUM_THREADS", "1"}};
    return options;
  }
  // 60 steps on a small text. An epoch is 17 steps of one rank, or 9 steps of two.
  std::vector<std::string> Command(const std::string& name, std::vector<std::string> more) const {
    std::vector<std::string> command = {RANKLOG_TRAIN};
    const std::vector<std::pair<std::string, std::string>> defaults = {
        {"--data", text_},
        {"--steps", "60"},
        {"--seq-len", "16"},
        {"--batch-size", "4"},
        {"--val-every", "7"},
        {"--save-every", "5"},
        {"--save-dir", dir_.File("out")},
        {"--experiment-name", name}};
    for (const auto& [flag, value] : defaults) {
      if (std::find(more.begin(), more.end(), flag) == more.end())
        command.insert(command.end(), {flag, value});
    }
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  Finished Train(const std::string& name, std::vector<std::string> more) const {
    return RunToEnd(Command(name, std::move(more)), Environment());
  }
  Finished Ranklog(std::vector<std::string> args) const {
    args.insert(args.begin(), RANKLOG_CLI);
    args.insert(args.end(), {"--state-dir", node_.state_dir()});
    ChildProcess::Options options;
    options.stdout_only = true;  // it is parsed
    return RunToEnd(args, options);
  }
  // The runs of an experiment, oldest first.
  std::vector<json> Runs(const std::string& name) const {
    std::vector<json> runs;
    for (const json& run : json::parse(Ranklog({"runs", "--json"}).output))
      if (run["name"] == name) runs.insert(runs.begin(), run);
    return runs;
  }
  // Waits until the rows of all `starts` of a run exist.
  void AwaitEnd(const std::string& run_id, size_t starts = 1) const {
    EXPECT_TRUE(WaitFor([&] {
      return node_.RunHasEnded(run_id) &&
             node_.Reader()->Streams(node_.GetRun(run_id).id)->size() >= starts;
    })) << run_id;
  }
  // The values that must be equal in all trainings: by step, as in the export.
  std::map<int64_t, std::string> Curve(const std::string& run_id, int64_t last_step = 60) const {
    EXPECT_TRUE(WaitFor([&] {
      return node_.RunHasEnded(run_id) && node_.GetRun(run_id).last_step == last_step;
    })) << run_id;
    std::istringstream lines(Ranklog({"export", run_id}).output);
    std::map<int64_t, std::string> curve;
    for (std::string line; std::getline(lines, line);) {
      const json row = json::parse(line);
      std::string text;
      for (const char* key : {"train/loss", "rank_max/train/loss", "train/lr", "train/grad_norm",
                              "val/loss", "epoch"})
        if (row.contains(key)) text += std::string(key) + "=" + row[key].dump() + " ";
      EXPECT_TRUE(curve.emplace(row["_step"].get<int64_t>(), text).second) << line;
    }
    return curve;
  }
  void ExpectTheWholeCurve(const std::string& run_id, const std::map<int64_t, std::string>& whole) {
    const std::map<int64_t, std::string> curve = Curve(run_id, static_cast<int64_t>(whole.size()));
    EXPECT_THAT(curve, ::testing::SizeIs(whole.size()));
    for (const auto& [step, text] : whole)
      EXPECT_EQ(curve.count(step) ? curve.at(step) : "absent", text) << "step " << step;
    const json shown = json::parse(Ranklog({"show", run_id, "--json"}).output);
    EXPECT_EQ(shown["metrics"]["train/loss"]["count"], whole.size());
    const Finished verified = Ranklog({"verify", run_id});
    EXPECT_EQ(verified.code, 0) << verified.output;
  }
  size_t Checkpoints(const std::string& name) const {
    std::error_code error;
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.File("out/" + name), error))
      count += entry.path().extension() == ".safetensors";
    return count;
  }

  Node node_;
  const TempDir dir_;
  const std::string text_ = [this] {
    std::ofstream file(dir_.File("text"));
    for (int i = 0; i < 90; ++i) file << "Line " << i * i << ": x\n";
    return dir_.File("text");
  }();
};

}  // namespace ranklog::testing

#endif  // TESTS_TRAINER_RESUMING_H_
