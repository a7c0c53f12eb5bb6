// Whose key a run is delivered with.

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/integration/node.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

bool IsComplete(FakeWandb& wandb, const std::string& run_id) {
  return wandb.WaitFor(
      [&](const std::map<std::string, FakeWandb::Run>& runs) {
        return runs.count(run_id) != 0 && runs.at(run_id).complete;
      },
      absl::Seconds(60));
}

TEST(KeysTest, EachJobIsDeliveredWithItsOwn) {
  FakeWandb wandb;
  Node node({"--wandb-transmit-interval", "20ms"});
  node.Start();
  const auto with_key = [&](char c) {
    return std::map<std::string, std::string>{{"WANDB_BASE_URL", wandb.url()},
                                              {"WANDB_API_KEY", std::string(40, c)}};
  };
  ChildProcess one = node.StartRank("one", 0, 0, 1, 1, {"1000000", "0", "2000"}, with_key('1'));
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > 10; }));
  ChildProcess two = node.StartRank("two", 0, 0, 1, 1, {"10"}, with_key('2'));
  EXPECT_EQ(two.Wait(), 0) << two.Output();
  ASSERT_TRUE(IsComplete(wandb, "two"));
  const size_t lines = wandb.run("one").history.size();
  ASSERT_TRUE(WaitFor([&] { return wandb.run("one").history.size() > lines + 10; }));
  one.Kill();
  ASSERT_TRUE(IsComplete(wandb, "one"));
  for (const FakeWandb::Request& request : wandb.requests()) {
    for (const char job : {'1', '2'}) {
      const std::string run = job == '1' ? "one" : "two";
      if (!absl::StrContains(request.path, "/" + run + "/") &&
          !absl::StrContains(request.body, absl::StrCat("\"name\":\"", run, "\""))) {
        continue;
      }
      EXPECT_EQ(request.authorization, "Basic " + absl::Base64Escape("api:" + std::string(40, job)))
          << request.path << " " << request.operation;
    }
  }
}

}  // namespace
}  // namespace ranklog::testing
