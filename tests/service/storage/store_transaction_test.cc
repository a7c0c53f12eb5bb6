// What a transaction keeps and what it undoes.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

using StoreTransactionTest = StoreTest;

TEST_F(StoreTransactionTest, IsRequiredByEveryCall) {
  const int64_t stream = NewStream();
  EXPECT_THAT(store_->Append(stream, Dense(1, 1, 1, 2)),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_->SetProgress(stream, 1), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_->Mark(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(store_->Commit(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(
      store_->Attach(ranklog::testing::SessionOf(3), ranklog::testing::AssignmentOf("x"), 1),
      StatusIs(absl::StatusCode::kFailedPrecondition));
  store_->Rollback();
  ASSERT_OK(store_->Begin());
  EXPECT_THAT(store_->Begin(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_OK(store_->Commit());
}

TEST_F(StoreTransactionTest, IsVisibleOnlyAfterCommit) {
  const int64_t stream = NewStream();
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->Append(stream, Dense(1, 1, 1, 2)));
  EXPECT_THAT(BatchesOf(stream), IsEmpty());
  ASSERT_OK(store_->Commit());
  EXPECT_THAT(BatchesOf(stream), ElementsAre(Dense(1, 1, 1, 2)));
}

TEST_F(StoreTransactionTest, LeavesNothingAfterARollback) {
  const int64_t stream = NewStream();
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->DefineShape(stream, 3, Keys(1)));
  ASSERT_OK(store_->Append(stream, Dense(1, 5, 3, 1)));
  const int64_t undone = Attach(1).id;
  store_->Rollback();
  Do([&] {
    EXPECT_THAT(store_->Append(stream, Dense(6, 1, 1, 2)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "the rows up to 5 are gone";
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 3, 1)),
                StatusIs(absl::StatusCode::kInvalidArgument))
        << "the shape is gone";
    EXPECT_THAT(store_->SetProgress(undone, 1), StatusIs(absl::StatusCode::kNotFound));
    EXPECT_THAT(store_->Append(stream, Dense(1, 1, 1, 2)), IsOkAndHolds(1));
  });
  EXPECT_THAT(BatchesOf(stream), ElementsAre(Dense(1, 1, 1, 2)));
}

TEST_F(StoreTransactionTest, RollsBackToNewestMark) {
  const int64_t stream = NewStream();
  Do([&] {
    EXPECT_OK(store_->Append(stream, Dense(1, 1, 1, 2)));
    EXPECT_OK(store_->Mark());
    EXPECT_OK(store_->Append(stream, Dense(2, 1, 1, 2)));
    EXPECT_OK(store_->Mark());
    EXPECT_OK(store_->DefineShape(stream, 3, Keys(1)));
    EXPECT_OK(store_->Append(stream, Dense(3, 4, 3, 1)));
    store_->RollbackToMark();
    EXPECT_THAT(store_->Append(stream, Dense(3, 1, 3, 1)),
                StatusIs(absl::StatusCode::kInvalidArgument));
    EXPECT_OK(store_->Append(stream, Dense(3, 2, 1, 2)));
    store_->RollbackToMark();
    EXPECT_THAT(store_->Append(stream, Dense(3, 3, 1, 2)), IsOkAndHolds(5));
  });
  EXPECT_THAT(BatchesOf(stream),
              ElementsAre(Dense(1, 1, 1, 2), Dense(2, 1, 1, 2), Dense(3, 3, 1, 2)));
}

TEST_F(StoreTransactionTest, IsRolledBackWhenStoreCloses) {
  const int64_t stream = NewStream();
  ASSERT_OK(store_->Begin());
  ASSERT_OK(store_->Append(stream, Dense(1, 1, 1, 2)));
  Reopen();
  EXPECT_THAT(BatchesOf(stream), IsEmpty());
}

}  // namespace
}  // namespace ranklog::storage
