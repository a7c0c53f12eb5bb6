// The `ranklog` program, and a store without a daemon.

#ifndef TESTS_INTEGRATION_CLI_FIXTURE_H_
#define TESTS_INTEGRATION_CLI_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "service/storage/store.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

using Json = nlohmann::ordered_json;

inline constexpr int64_t kStart = 1700000000000000;  // start of the finished run; Unix microseconds

Json Parse(const std::string& text);  // fails the test if it is not JSON
std::vector<std::string> Lines(const std::string& text);

// Rows 0, 1, ... at the steps 0, 10, ..., with values for two keys.
model::Batch MakeBatch(uint64_t first, uint64_t rows);

// A store with two runs. "tiny" has two ranks, is finished, and partly delivered to W&B with one
// refused row. "other" began later, is still running, and is local.
class CliTest : public ::testing::Test {
 protected:
  void SetUp() override;

  std::string state_dir() const { return dir_.File("state"); }

  // Runs ranklog on the store.
  Finished Ranklog(std::vector<std::string> args) const;
  Json RanklogJson(std::vector<std::string> args) const;

  model::Stream Attach(const std::string& job, uint32_t rank, const std::string& name,
                       const std::string& destination, int64_t time_us);
  void MakeFinishedRun();
  void MakeRunningRun();

  const TempDir dir_;
  std::unique_ptr<storage::Store> store_;
  int64_t run_ = 0;
  model::Stream live_;
  ChildProcess::Options options_ = {
      .environment = {{"LC_ALL", "C.UTF-8"}, {"TZ", "UTC"}},
      .unset = {"RANKLOG_STATE_DIR", "XDG_STATE_HOME", "RANKLOG_ADDRESS", "WANDB_API_KEY"},
      .output = ""};
};

}  // namespace ranklog::testing

#endif  // TESTS_INTEGRATION_CLI_FIXTURE_H_
