// The metadata of a run: what it contains, and that it is in the ring in time.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "client/facts/libraries.h"
#include "client/facts/metadata.h"
#include "ranklog/run.h"
#include "tests/client/fake_ingest.h"
#include "tests/client/ring_file.h"
#include "tests/client/settings_fixture.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::SizeIs;

const v1::Value* Find(const v1::Object& object, const std::string& key) {
  for (const v1::Field& field : object.fields()) {
    if (field.key() == key) return &field.value();
  }
  return nullptr;
}

std::string Text(const v1::Object& object, const std::string& key) {
  const v1::Value* const value = Find(object, key);
  return value == nullptr ? "" : value->text();
}

TEST(LibrariesTest, VersionComesFromTheFilesName) {
  EXPECT_EQ(internal::LibraryVersion("/usr/lib/libcudart.so.12"), "libcudart==12");
  EXPECT_EQ(internal::LibraryVersion("/x/libtorch.so"), "libtorch");
  EXPECT_EQ(internal::LibraryVersion("/x/libnccl.so.2.19.3"), "libnccl==2.19.3");
  EXPECT_EQ(internal::LibraryVersion("libfoo-1.2.so"), "libfoo==1.2");
  EXPECT_EQ(internal::LibraryVersion("/x/ld-linux-x86-64.so.2"), "ld-linux-x86-64==2");
  EXPECT_EQ(internal::LibraryVersion("/x/"), "");
  EXPECT_THAT(internal::LoadedLibraries(), Contains(MatchesRegex("libc==[0-9.]+")));
}

class MetadataTest : public SettingsTest {
 protected:
  v1::Object Metadata(const std::map<std::string, std::string>& variables) {
    Settings settings = From(variables);
    settings.host = "host";
    settings.node = "n1";
    settings.program = dir_.File("train");
    settings.rank = 2;
    settings.world_size = 4;
    internal::Surroundings surroundings = internal::ReadSurroundings();
    surroundings.directory = dir_.path();
    return internal::MakeMetadata(settings, surroundings, /*start_time_us=*/1'767'322'800'500'000);
  }
  void MakeRepository() {
    ASSERT_EQ(mkdir(dir_.File(".git").c_str(), 0700), 0);
    std::ofstream(dir_.File(".git/HEAD")) << std::string(40, 'a') << "\n";
  }

  TempDir dir_;
};

TEST_F(MetadataTest, FactsHaveTheNamesOfWandb) {
  MakeRepository();
  const v1::Object facts = Metadata({{"USER", "me"}, {"WANDB_DOCKER", "image"}, {"HOME", "/none"}});
  EXPECT_THAT(Text(facts, "os"), MatchesRegex("Linux-.*-with-glibc[0-9.]+"));
  EXPECT_EQ(Text(facts, "startedAt"), "2026-01-02T03:00:00.500000Z");
  EXPECT_EQ(Text(facts, "program"), dir_.File("train"));
  EXPECT_EQ(Text(facts, "codePath"), "train");
  EXPECT_EQ(Text(facts, "root"), dir_.path());
  EXPECT_EQ(Text(facts, "host"), "host");
  EXPECT_EQ(Text(facts, "username"), "me");
  EXPECT_EQ(Text(facts, "docker"), "image");
  EXPECT_EQ(Text(facts, "node"), "n1");
  EXPECT_EQ(Find(facts, "rank")->integer(), 2);
  EXPECT_EQ(Find(facts, "world_size")->integer(), 4);
  EXPECT_EQ(Find(facts, "pid")->integer(), getpid());
  EXPECT_EQ(Text(Find(facts, "git")->object(), "commit"), std::string(40, 'a'));
  EXPECT_EQ(Find(facts, "slurm"), nullptr);
  EXPECT_EQ(Find(facts, "email"), nullptr);
}

TEST_F(MetadataTest, VariablesOfWandbReplaceGit) {
  MakeRepository();
  const v1::Object facts = Metadata({{"WANDB_GIT_COMMIT", "c"},
                                     {"WANDB_GIT_REMOTE_URL", "https://u:pw@host/x"},
                                     {"WANDB_USER_EMAIL", "me@work"}});
  const v1::Object& git = Find(facts, "git")->object();
  EXPECT_EQ(Text(git, "commit"), "c");
  EXPECT_EQ(Text(git, "remote"), "https://host/x");
  EXPECT_EQ(Text(facts, "email"), "me@work");
  EXPECT_EQ(Find(Metadata({{"WANDB_DISABLE_GIT", "true"}}), "git"), nullptr);
}

TEST_F(MetadataTest, SlurmVariablesLoseTheirPrefixAndSecrets) {
  const v1::Object facts = Metadata({{"SLURM_JOB_ID", "7"},
                                     {"SLURM_JWT", "secret"},
                                     {"SLURM_X", "https://u:pw@h"},
                                     {"OTHER", "1"}});
  const v1::Object& slurm = Find(facts, "slurm")->object();
  EXPECT_EQ(slurm.fields_size(), 2);
  EXPECT_EQ(Text(slurm, "job_id"), "7");
  EXPECT_EQ(Text(slurm, "x"), "https://***@h");
}

TEST_F(MetadataTest, LargeAndMalformedTextsAreCut) {
  std::map<std::string, std::string> variables = {{"USER", "\xff" + std::string(5000, 'x')}};
  for (int i = 0; i < 100; ++i) variables["SLURM_" + std::to_string(i)] = std::string(5000, 'y');
  const v1::Object facts = Metadata(variables);
  EXPECT_THAT(Text(facts, "username"), SizeIs(1024));
  EXPECT_EQ(Text(facts, "username")[0], '?');
  EXPECT_LT(facts.ByteSizeLong(), 32u << 10);
}

class FactsTest : public ::testing::Test {
 protected:
  FactsTest() {
    settings_.address = "unix:" + dir_.File("sock");
    settings_.spool_dir = dir_.path();
    settings_.start_daemon = false;
    settings_.quiet = true;
    settings_.finish_timeout = std::chrono::milliseconds(0);
  }

  // The metadata items in the rings of the directory.
  std::vector<v1::Item> Items() {
    std::vector<v1::Item> items;
    for (const std::string& path : RingPaths(dir_.path())) {
      for (const v1::Item& item : ReadRing(path).items) {
        if (item.has_metadata()) items.push_back(item);
      }
    }
    return items;
  }

  TempDir dir_;
  Settings settings_;
};

TEST_F(FactsTest, ShortestRunHasItsFactsOnce) {
  for (const bool logs : {false, true}) {
    ranklog::Run run = Init(settings_);
    if (logs) run.Log({{"loss", 1}});
    run.Finish(0);
    EXPECT_THAT(Items(), SizeIs(1));
    for (const std::string& path : RingPaths(dir_.path())) unlink(path.c_str());
  }
}

TEST_F(FactsTest, DestructorWritesFactsToo) {
  { const ranklog::Run run = Init(settings_); }
  EXPECT_THAT(Items(), SizeIs(1));
}

TEST_F(FactsTest, LaterRowBringsTheFactsWhileTheRunLives) {
  ranklog::Run run = Init(settings_);
  for (int i = 0; i < 5000 && Items().empty(); ++i) {
    run.Log({{"loss", i}});
    usleep(2000);
  }
  EXPECT_THAT(Items(), SizeIs(1));
  run.Log({{"loss", 1}});
  run.Config({{"lr", 1}});
  run.Finish(0);
  EXPECT_THAT(Items(), SizeIs(1));
}

TEST_F(FactsTest, SettingSwitchesFactsOff) {
  settings_.metadata = false;
  ranklog::Run run = Init(settings_);
  run.Log({{"loss", 1}});
  run.Finish(0);
  EXPECT_THAT(Items(), IsEmpty());
}

}  // namespace
}  // namespace ranklog::testing
