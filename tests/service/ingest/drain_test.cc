#include "service/ingest/orphans/drain.h"

#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "service/ingest/ring/ring_file.h"
#include "tests/support/faulty_vfs.h"
#include "tests/support/ring_image.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::FaultyVfs;
using ::ranklog::testing::RingImage;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;

// A ring left by a dead rank, and a store whose disk may fail.
class DrainTest : public ::testing::Test {
 protected:
  DrainTest() {
    auto store = storage::Store::Open(dir_.path(), {.vfs = vfs_.name()});
    EXPECT_OK(store);
    store_ = std::make_unique<pipeline::StoreLoop>(*std::move(store),
                                                   pipeline::StoreLoop::Options{.threads = false});
    model::Session session;
    session.stream = {.project = "p", .job_id = "job", .rank = 0, .incarnation = 42};
    session.settings.destinations = {"local"};
    EXPECT_OK(store_->SubmitAndWait([&](storage::Store& open) {
      auto attached = open.Attach(session, {.run_id = "job", .name = "job", .primary = true}, 1);
      if (attached.ok()) stream_ = attached->id;
      return attached.status();
    }));
  }
  ~DrainTest() override { store_->Stop(); }

  absl::StatusOr<Drained> Drain(RingImage ring) {
    const std::string path = dir_.File("ring-1-42.spool");
    std::ofstream(path, std::ios::binary) << ring.bytes();
    const auto file = RingFile::OpenLeft(path);
    EXPECT_OK(file);
    auto reader = SpoolReader::Open((*file)->fd());
    EXPECT_OK(reader);
    return DrainRing(*reader, stream_, *store_, content_.get());
  }
  static RingImage TwoRows() {
    RingImage ring;
    ring.Shape(1, {"loss"});
    ring.Row(1, 0, {0.5});
    ring.Row(2, 1, {0.25});
    return ring;
  }

  const TempDir dir_;
  FaultyVfs vfs_;
  std::unique_ptr<pipeline::StoreLoop> store_;
  std::unique_ptr<ContentDir> content_ =
      ContentDir::Open(dir_.path(), /*quota=*/1 << 20, absl::Now()).value();
  int64_t stream_ = 0;
};

TEST_F(DrainTest, StoresEveryRow) {
  const auto drained = Drain(TwoRows());
  ASSERT_OK(drained);
  EXPECT_OK(drained->damage);
  EXPECT_EQ(drained->rows, 2u);
}

// The store is an older copy, so the rank has freed rows that it lacks.
TEST_F(DrainTest, RowsThatTheStoreLacksAreCountedAsLost) {
  RingImage ring;
  ring.Shape(1, {"loss"});
  ring.Row(3, 2, {0.5});
  ring.Row(4, 3, {0.25});
  const auto drained = Drain(ring);
  ASSERT_OK(drained);
  EXPECT_OK(drained->damage);
  EXPECT_EQ(drained->rows, 2u);
  const auto reader = storage::StoreReader::Open(dir_.path());
  ASSERT_OK(reader);
  const auto streams = (*reader)->LiveStreams();
  ASSERT_OK(streams);
  ASSERT_EQ(streams->size(), 1u);
  EXPECT_EQ(streams->front().durable_seq, 4u);
  EXPECT_EQ(streams->front().losses.with_store, 2u);
}

TEST_F(DrainTest, DiskErrorIsNotRingDamage) {
  vfs_.FailWrites(1, EIO);
  EXPECT_THAT(Drain(TwoRows()), StatusIs(absl::StatusCode::kInternal));
  vfs_.Heal();
  const auto drained = Drain(TwoRows());
  ASSERT_OK(drained);
  EXPECT_OK(drained->damage);
  EXPECT_EQ(drained->rows, 2u);
}

TEST_F(DrainTest, RowsBehindAGapAreDamage) {
  RingImage ring = TwoRows();
  ring.Row(4, 2, {0.125});
  const auto drained = Drain(ring);
  ASSERT_OK(drained);
  EXPECT_FALSE(drained->damage.ok());
}

}  // namespace
}  // namespace ranklog::ingest
