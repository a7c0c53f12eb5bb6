#include "client/settings/run_handle.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <string>

#include "client/launch/join.h"
#include "client/launch/launch.h"
#include "client/launch/resolve.h"
#include "client/ring/steps.h"
#include "client/settings/validate.h"
#include "ranklog/run.h"
#include "tests/client/settings_fixture.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;

class RunHandleTest : public SettingsTest {
 protected:
  v1::Hello MakerHello() {
    Settings settings = From({{"RANKLOG_PROJECT", "gpt"},
                              {"RANKLOG_RUN_ID", "job"},
                              {"RANKLOG_NAME", "name"},
                              {"RANKLOG_NOTES", "private notes"},
                              {"RANKLOG_LOG_STRATEGY", "node"},
                              {"WANDB_API_KEY", "top-secret"},
                              {"RANK", "3"},
                              {"WORLD_SIZE", "4"},
                              {"LOCAL_RANK", "1"},
                              {"LOCAL_WORLD_SIZE", "2"},
                              {"GROUP_RANK", "1"}});
    settings.destination_settings["wandb"]["base_url"] = "https://me:password@tracker.test";
    settings = internal::Resolve(internal::Repair(settings));
    v1::Hello hello = internal::MakeHello(settings);
    *hello.mutable_launch() = internal::MakeLaunch(settings, /*id_given=*/true);
    return hello;
  }
};

TEST_F(RunHandleTest, ContentSurvivesTheText) {
  const v1::Hello maker = MakerHello();
  const std::string text = internal::EncodeHandle(internal::MakeHandle(maker));
  EXPECT_THAT(text, MatchesRegex("[A-Za-z0-9_.-]+"));
  EXPECT_LT(text.size(), 1000u);
  const auto handle = internal::UseHandle(text);
  ASSERT_TRUE(handle.ok()) << handle.status();
  v1::Hello own = internal::MakeHello(internal::Resolve(From({})));
  internal::JoinHello(*handle, &own);
  EXPECT_TRUE(own.attached());
  EXPECT_EQ(own.stream().SerializeAsString(), maker.stream().SerializeAsString());
  EXPECT_EQ(own.launch().SerializeAsString(), maker.launch().SerializeAsString());
  EXPECT_EQ(own.settings().start_time_us(), maker.settings().start_time_us());
  EXPECT_EQ(own.identity().began_us(), maker.identity().began_us());
}

TEST_F(RunHandleTest, RankAndRunAreTheMakers) {
  const v1::RunHandle handle = internal::MakeHandle(MakerHello());
  const Settings joined = internal::JoinSettings(
      handle, From({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"RANKLOG_PROJECT", "other"}}));
  EXPECT_EQ(joined.project, "gpt");
  EXPECT_EQ(joined.run_id, "job");
  EXPECT_EQ(joined.name, "name");
  EXPECT_EQ(joined.log_strategy, LogStrategy::kNode);
  EXPECT_EQ(joined.rank, 3);
  EXPECT_EQ(joined.world_size, 4);
  EXPECT_EQ(joined.local_rank, 1);
  EXPECT_EQ(joined.local_world_size, 2);
  EXPECT_THAT(joined.Validate(), IsEmpty());
}

TEST_F(RunHandleTest, HandleHasNoSecrets) {
  const std::string bytes = internal::MakeHandle(MakerHello()).SerializeAsString();
  for (const char* secret : {"top-secret", "password", "private notes"}) {
    EXPECT_THAT(bytes, Not(HasSubstr(secret)));
  }
}

TEST_F(RunHandleTest, EveryChangeIsNoticed) {
  const std::string text = internal::EncodeHandle(internal::MakeHandle(MakerHello()));
  for (size_t i = 0; i < text.size(); ++i) {
    EXPECT_FALSE(internal::DecodeHandle(text.substr(0, i)).ok()) << i;
    std::string other = text;
    other[i] = other[i] == 'x' ? 'y' : 'x';
    EXPECT_FALSE(internal::DecodeHandle(other).ok()) << i;
  }
  Settings settings;
  settings.handle = text;
  EXPECT_THAT(settings.Validate(), IsEmpty());
  settings.handle += "x";
  EXPECT_THAT(settings.Validate(),
              ElementsAre(HasSubstr("is not what Run::Handle() returned, or only a part of it")));
}

TEST_F(RunHandleTest, HandleOfAnotherBootIsRefused) {
  v1::RunHandle handle = internal::MakeHandle(MakerHello());
  handle.mutable_hello()->mutable_identity()->set_boot_id("another");
  const std::string text = internal::EncodeHandle(handle);
  EXPECT_EQ(internal::UseHandle(text).status().code(), absl::StatusCode::kFailedPrecondition);
  TempDir dir;
  Settings settings;
  settings.run_id = "own";
  settings.spool_dir = dir.path();
  settings.address = "unix:" + dir.File("none");
  settings.start_daemon = false;
  settings.quiet = true;
  settings.finish_timeout = std::chrono::milliseconds(0);
  ranklog::Run run = Attach(text, settings);
  EXPECT_TRUE(run.Log({{"loss", 1}}));
  EXPECT_EQ(run.settings().run_id, "own");
  EXPECT_EQ(run.settings().handle, "");
  EXPECT_THAT(run.stats().last_error, HasSubstr("comes from another node"));
}

TEST(JoinedStepsTest, OpenStepIsSharedByTheDescriptor) {
  const auto steps = internal::SharedSteps::Create();
  ASSERT_NE(steps->token(), 0u);
  const auto joined = internal::SharedSteps::Join(getpid(), steps->descriptor(), steps->token());
  ASSERT_NE(joined, nullptr);
  steps->Take(steps->AddRing(), 7);
  EXPECT_EQ(joined->TakeOpen(), 7);
  EXPECT_EQ(steps->TakeOpen(), 8);
  EXPECT_EQ(joined->token(), 0u) << "another process joins by the maker's descriptor";
}

TEST(JoinedStepsTest, OtherDescriptorsAreNoSteps) {
  const auto steps = internal::SharedSteps::Create();
  const auto join = [](int64_t pid, int descriptor, uint64_t token) {
    return internal::SharedSteps::Join(pid, descriptor, token) != nullptr;
  };
  EXPECT_FALSE(join(getpid(), steps->descriptor(), steps->token() + 1));
  EXPECT_FALSE(join(getpid(), steps->descriptor(), 0));
  EXPECT_FALSE(join(-1, steps->descriptor(), steps->token()));
  int pipes[2];
  ASSERT_EQ(pipe(pipes), 0);
  for (const int fd : {pipes[0], pipes[1], 1000}) {
    EXPECT_FALSE(join(getpid(), fd, steps->token())) << fd;
    close(fd);
  }
  TempDir dir;
  const int file = open(dir.File("file").c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_FALSE(join(getpid(), file, steps->token()));
  close(file);
}

}  // namespace
}  // namespace ranklog::testing
