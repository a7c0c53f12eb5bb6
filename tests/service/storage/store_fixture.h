// The fixture of the store's tests.

#ifndef TESTS_SERVICE_STORAGE_STORE_FIXTURE_H_
#define TESTS_SERVICE_STORAGE_STORE_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/service/storage/stored_stream.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

using storage::Store;
using storage::StoredBatch;
using storage::StoreReader;

// A store in its own directory, and a reader of it.
class StoreTest : public ::testing::Test {
 protected:
  void SetUp() override { Reopen(); }

  void Reopen() {
    reader_.reset();
    store_.reset();
    ASSERT_OK_AND_ASSIGN(store_, Store::Open(dir_.path(), {}));
    ASSERT_OK_AND_ASSIGN(reader_, StoreReader::Open(dir_.path()));
  }

  model::Stream Attach(uint32_t rank, uint64_t incarnation = 7, const std::string& run_id = "job") {
    auto stream =
        store_->Attach(SessionOf(rank, incarnation), AssignmentOf(run_id, rank == 0), now_us_);
    EXPECT_OK(stream);
    return stream.value_or(model::Stream());
  }

  // Runs in its own transaction.
  template <typename Fn>
  void Do(Fn fn) {
    ASSERT_OK(store_->Begin());
    fn();
    ASSERT_OK(store_->Commit());
  }

  // Makes and commits a stream of rank 0 with shapes 1 (2 keys) and 2 (3 keys).
  int64_t NewStream() {
    int64_t id = 0;
    Do([&] {
      id = Attach(0).id;
      EXPECT_OK(store_->DefineShape(id, 1, Keys(2)));
      EXPECT_OK(store_->DefineShape(id, 2, Keys(3)));
    });
    return id;
  }

  std::vector<model::Batch> BatchesOf(int64_t stream, uint64_t after = 0) {
    std::vector<model::Batch> batches;
    auto stored = reader_->StreamBatches(stream, after, 1 << 30);
    EXPECT_OK(stored);
    for (const StoredBatch& each : *stored) batches.push_back(each.batch);
    return batches;
  }

  TempDir dir_;
  int64_t now_us_ = 1000;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreReader> reader_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_STORAGE_STORE_FIXTURE_H_
