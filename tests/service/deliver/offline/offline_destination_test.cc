#include "service/deliver/offline/offline_destination.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "service/deliver/credentials.h"
#include "tests/support/status_matchers.h"

namespace ranklog::deliver::offline {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(OfflineDestinationTest, ItsServerIsAnAbsoluteDirectory) {
  const OfflineDestination offline;
  EXPECT_THAT(offline.CheckUrl("/home/u//"), IsOkAndHolds("/home/u"));
  EXPECT_THAT(offline.CheckUrl("home"), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(offline.CheckUrl(""), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(OfflineDestinationTest, DirectoryMayContainAnAt) {
  const OfflineDestination offline;
  std::vector<std::string> mistakes;
  EXPECT_THAT(offline.SettingsOf({{"dir", "/home/u@site/x"}}, &mistakes),
              ElementsAre(Pair("dir", "/home/u@site/x")));
  EXPECT_THAT(mistakes, IsEmpty());
}

TEST(OfflineDestinationTest, NeedsNoKey) {
  const OfflineDestination offline;
  const CredentialStore keys({.environment = {}, .netrc = {}, .files = {}});
  const auto key = keys.Find("job", {.destination = offline, .server = "/dir", .project = "p"});
  ASSERT_OK(key);
  EXPECT_EQ(key->secret, "");
  EXPECT_THAT(offline.VariablesOf(*key), IsEmpty());
}

TEST(OfflineDestinationTest, PageOfARunIsItsDirectory) {
  const OfflineDestination offline;
  model::Run run;
  run.settings.destination_settings["offline"]["dir"] = "/dir/";
  model::Delivery delivery;
  EXPECT_EQ(offline.RunPage(run, delivery), "");
  delivery.cursor = {{"storage_id", "wandb/offline-run-x"}};
  EXPECT_EQ(offline.RunPage(run, delivery), "/dir/wandb/offline-run-x");
}

}  // namespace
}  // namespace ranklog::deliver::offline
