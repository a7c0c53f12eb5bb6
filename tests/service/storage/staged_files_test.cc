// Which staged files are removed, and when.

#include "service/storage/staged_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

namespace fs = std::filesystem;

using ::ranklog::testing::AssignmentOf;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::SessionOf;
using ::testing::UnorderedElementsAre;

class StagedFilesTest : public ::ranklog::testing::StoreTest {
 protected:
  StagedFilesTest() { fs::create_directory(content_); }

  void Stage(const std::string& name) { std::ofstream(content_ + "/" + name) << "x"; }
  // Makes a run with an artifact of this file, and stages the file. Returns the run.
  int64_t Log(const std::string& job, uint64_t incarnation, const std::string& file) {
    Stage(file);
    int64_t run = 0;
    Do([&] {
      const auto stream = store_->Attach(SessionOf(0, incarnation, job), AssignmentOf(job), 1000);
      ASSERT_OK(stream);
      run = stream->run;
      const model::Json entry = {{"path", "a"}, {"file", file}, {"bytes", 1}};
      ASSERT_OK(testing::AppendItem(
          *store_, stream->id,
          {.kind = model::Item::Kind::kArtifact,
           .object = model::Json{{"name", "n"}, {"entries", model::Json::array({entry})}}}));
    });
    return run;
  }
  void Deliver(int64_t run, const std::string& kind, int64_t items) {
    Do([&] {
      model::Delivery delivery;
      delivery.run = run;
      delivery.kind = kind;
      delivery.delivered_items = items;
      ASSERT_OK(store_->PutDelivery(delivery));
    });
  }
  std::set<std::string> Files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(content_)) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  absl::StatusOr<int> Remove(absl::Duration later = absl::ZeroDuration()) {
    const auto reader = StoreReader::Open(dir_.path()).value();
    return RemoveUnneededFiles(content_, *reader, absl::Now() + later);
  }

  const std::string content_ = ContentDirOf(dir_.path());
};

TEST_F(StagedFilesTest, DeliveredOnesGo) {
  const int64_t run = Log("a", 1, "staged-a");
  const int64_t other = Log("b", 2, "staged-b");
  Deliver(run, "wandb", 0);
  Deliver(other, "wandb", 1000);
  EXPECT_THAT(Remove(), IsOkAndHolds(1));
  EXPECT_THAT(Files(), UnorderedElementsAre("staged-a"));
  Deliver(run, "wandb", 1000);
  Deliver(run, "toy", 0);  // a second tracker still needs it
  EXPECT_THAT(Remove(), IsOkAndHolds(0));
  Deliver(run, "toy", 1000);
  EXPECT_THAT(Remove(), IsOkAndHolds(1));
}

TEST_F(StagedFilesTest, LocalRunsKeepTheirs) {
  const int64_t run = Log("a", 1, "staged-a");
  EXPECT_THAT(Remove(absl::Hours(1000)), IsOkAndHolds(0)) << "no tracker is known yet";
  Deliver(run, "local", 1000);
  EXPECT_THAT(Remove(absl::Hours(1000)), IsOkAndHolds(0));
}

TEST_F(StagedFilesTest, UnknownOnesGoAfterAWhile) {
  Log("a", 1, "staged-a");
  Stage("staged-unknown");
  Stage("an item of a rank");
  EXPECT_THAT(Remove(kUnknownKept - absl::Hours(1)), IsOkAndHolds(0));
  EXPECT_THAT(Remove(kUnknownKept + absl::Hours(1)), IsOkAndHolds(1));
  EXPECT_THAT(Files(), UnorderedElementsAre("staged-a", "an item of a rank"));
}

}  // namespace
}  // namespace ranklog::storage
