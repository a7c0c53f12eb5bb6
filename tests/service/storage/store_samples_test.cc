// System metrics in the store.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StoreSamplesTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] { run_ = Attach(0).run; });
  }
  void Append(const model::Sample& sample) {
    Do([&] { EXPECT_OK(store_->AppendSample(run_, sample)); });
  }
  uint64_t Count() { return reader_->GetRun(run_)->samples; }
  int64_t Records(const char* table) {
    auto database = storage::Database::Open(dir_.path() + "/ranklog.db",
                                            storage::Database::Mode::kReadOnly, nullptr);
    return *database->SelectInteger(std::string("SELECT count(*) FROM ") + table);
  }

  int64_t run_ = 0;
};

TEST_F(StoreSamplesTest, AreNumberedAndReadBack) {
  EXPECT_EQ(Count(), 0u);
  Append({.time_us = 100, .values = {{"cpu", 12.5}, {"disk./.usagePercent", 40}}});
  Append({.time_us = 200, .values = {{"cpu", INFINITY}, {"disk./.usagePercent", 41}}});
  Append({.time_us = 300, .values = {{"cpu", 3}, {"gpu.0.gpu", 90}}});
  EXPECT_EQ(Count(), 3u);
  EXPECT_THAT(reader_->Samples(run_, 1, 10),
              IsOkAndHolds(ElementsAre(
                  model::Sample{1, 200, {{"cpu", INFINITY}, {"disk./.usagePercent", 41}}},
                  model::Sample{2, 300, {{"cpu", 3}, {"gpu.0.gpu", 90}}})));
  EXPECT_THAT(reader_->Samples(run_, 0, 1), IsOkAndHolds(SizeIs(1)));
  EXPECT_EQ(Records("sample_shape"), 2) << "equal names are stored once";
}

TEST_F(StoreSamplesTest, AnEndedRunGetsNoMore) {
  Do([&] {
    EXPECT_OK(store_->EndStream(reader_->Streams(run_)->at(0).id, model::StreamState::kFinished, 0,
                                "", 1));
    EXPECT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", 1));
    EXPECT_THAT(store_->AppendSample(run_, {}), StatusIs(absl::StatusCode::kNotFound));
  });
  EXPECT_EQ(Count(), 0u);
}

TEST_F(StoreSamplesTest, AnUnknownRunHasNone) {
  ASSERT_OK(store_->Begin());
  EXPECT_THAT(store_->AppendSample(99, {}), StatusIs(absl::StatusCode::kNotFound));
  EXPECT_OK(store_->Commit());
  EXPECT_THAT(reader_->Samples(99, 0, 10), IsOkAndHolds(IsEmpty()));
}

TEST_F(StoreSamplesTest, HardwareIsReplaced) {
  EXPECT_THAT(reader_->Hardware(run_), IsOkAndHolds(model::Json::object()));
  Do([&] { EXPECT_OK(store_->SetHardware(run_, {{"cpu_count", 2}})); });
  Do([&] { EXPECT_OK(store_->SetHardware(run_, {{"cpu_count", 4}})); });
  EXPECT_THAT(reader_->Hardware(run_), IsOkAndHolds(model::Json{{"cpu_count", 4}}));
}

TEST_F(StoreSamplesTest, GoWithTheirRun) {
  Append({.time_us = 100, .values = {{"cpu", 1}}});
  Do([&] {
    EXPECT_OK(store_->SetHardware(run_, {{"cpu_count", 2}}));
    const auto streams = reader_->Streams(run_);
    EXPECT_OK(store_->EndStream(streams->at(0).id, model::StreamState::kFinished, 0, "", 1));
    EXPECT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", 1));
    EXPECT_OK(store_->RemoveRun(run_, 2, storage::Removal::kWhateverWaits));
  });
  for (bool more = true; more;) {
    Do([&] { more = store_->SweepRemoved()->more; });
  }
  for (const char* const table : {"sample", "sample_shape", "hardware"}) {
    EXPECT_EQ(Records(table), 0) << table;
  }
}

}  // namespace
}  // namespace ranklog::testing
