// A reader, a thread that writes, and a thread that checkpoints the log.

#include <gtest/gtest.h>

#include <thread>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::Dense;

using StoreThreadsTest = ::ranklog::testing::StoreTest;

TEST_F(StoreThreadsTest, ReadsDuringWritesAndCheckpoints) {
  const int64_t stream = NewStream();
  std::thread checkpoints([&] {
    for (int i = 0; i < 50; ++i) EXPECT_OK(store_->Checkpoint());
  });
  std::thread writes([&] {
    for (uint64_t i = 0; i < 50; ++i) {
      Do([&] { EXPECT_OK(store_->Append(stream, Dense(1 + i * 10, 10, 1, 2))); });
    }
  });
  uint64_t seen = 0;
  while (seen < 500) {
    auto batches = reader_->StreamBatches(stream, seen, 1 << 20);
    ASSERT_OK(batches);
    for (const StoredBatch& stored : *batches) {
      ASSERT_EQ(stored.batch.first, seen + 1);
      seen = stored.batch.last;
    }
  }
  writes.join();
  checkpoints.join();
}

}  // namespace
}  // namespace ranklog::storage
