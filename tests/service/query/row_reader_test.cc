#include "service/query/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "tests/service/storage/store_fixture.h"

namespace ranklog::query {

bool operator==(const RowRange& a, const RowRange& b) {
  return a.replays == b.replays && a.begin == b.begin && a.end == b.end;
}
void PrintTo(const RowRange& range, std::ostream* out) {
  *out << (range.replays ? "replays " : "rows ") << range.begin << " to " << range.end;
}

namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::StoreTest;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

model::Batch RunRowsAt(uint64_t first, uint64_t rows, int64_t first_step) {
  model::Batch batch = Dense(first, rows, 1, 1);
  for (size_t i = 0; i < rows; ++i) {
    batch.blocks[0].steps[i] = first_step + static_cast<int64_t>(i);
  }
  return batch;
}

class RowReaderTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      run_ = Attach(0).run;
      EXPECT_OK(store_->DefineRunShape(run_, 1, Keys(1)));
    });
  }
  void Append(uint64_t first, uint64_t rows, int64_t first_step) {
    Do([&] { EXPECT_OK(store_->AppendRunRows(run_, RunRowsAt(first, rows, first_step))); });
  }
  // Ten rows at steps 0 to 9, then a restart from step 5: five replays and three more rows.
  void MakeRewoundRun() {
    Append(0, 10, 0);
    Do([&] {
      EXPECT_OK(store_->AddRewind(run_, {.first_step = 5, .rows = 10, .replays = 0}));
      EXPECT_OK(store_->AppendReplays(run_, RunRowsAt(0, 5, 5)));
    });
    Append(10, 3, 10);
  }
  model::Run GetRun() { return reader_->GetRun(run_).value(); }
  std::vector<int64_t> StepsOf(const std::vector<RowRange>& ranges) {
    std::vector<int64_t> steps;
    for (const RowRange& range : ranges) {
      EXPECT_OK(VisitRunRows(*reader_, run_, range, [&](const Row& row) {
        steps.push_back(row.step());
        return absl::OkStatus();
      }));
    }
    return steps;
  }

  int64_t run_ = 0;
};

TEST_F(RowReaderTest, AllRowsOfAnOrdinaryRunAreVisible) {
  ASSERT_OK_AND_ASSIGN(auto visible, VisibleRows(*reader_, GetRun()));
  EXPECT_THAT(visible, IsEmpty());
  Append(0, 10, 0);
  ASSERT_OK_AND_ASSIGN(visible, VisibleRows(*reader_, GetRun()));
  EXPECT_THAT(visible, ElementsAre(RowRange{.begin = 0, .end = 10}));
}

TEST_F(RowReaderTest, RewindHidesRowsThatWereLoggedAgain) {
  MakeRewoundRun();
  ASSERT_OK_AND_ASSIGN(const auto visible, VisibleRows(*reader_, GetRun()));
  EXPECT_THAT(visible, ElementsAre(RowRange{.begin = 0, .end = 5},
                                   RowRange{.replays = true, .begin = 0, .end = 5},
                                   RowRange{.begin = 10, .end = 13}));
  EXPECT_THAT(StepsOf(visible), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12));
}

// The second restart goes back behind the first.
TEST_F(RowReaderTest, SecondRewindHidesRowsOfAllEarlierAttempts) {
  MakeRewoundRun();
  Do([&] {
    EXPECT_OK(store_->AddRewind(run_, {.first_step = 2, .rows = 13, .replays = 5}));
    EXPECT_OK(store_->AppendReplays(run_, RunRowsAt(5, 1, 2)));
  });
  ASSERT_OK_AND_ASSIGN(const auto visible, VisibleRows(*reader_, GetRun()));
  EXPECT_THAT(StepsOf(visible), ElementsAre(0, 1, 2));
}

TEST_F(RowReaderTest, MadeSinceHasRowsInTheOrderOfTheirMaking) {
  Append(0, 8, 0);
  const model::Run before = GetRun();
  Append(8, 2, 8);
  Do([&] {
    EXPECT_OK(store_->AddRewind(run_, {.first_step = 5, .rows = 10, .replays = 0}));
    EXPECT_OK(store_->AppendReplays(run_, RunRowsAt(0, 5, 5)));
  });
  Append(10, 3, 10);
  ASSERT_OK_AND_ASSIGN(auto made, MadeSince(*reader_, before, GetRun()));
  EXPECT_THAT(made, ElementsAre(RowRange{.begin = 8, .end = 10},
                                RowRange{.replays = true, .begin = 0, .end = 5},
                                RowRange{.begin = 10, .end = 13}));
  ASSERT_OK_AND_ASSIGN(made, MadeSince(*reader_, GetRun(), GetRun()));
  EXPECT_THAT(made, IsEmpty());
}

TEST_F(RowReaderTest, LastOfTakesRowsFromTheEnd) {
  const std::vector<RowRange> ranges = {{.begin = 0, .end = 5}, {.begin = 10, .end = 13}};
  EXPECT_THAT(LastOf(ranges, 2), ElementsAre(RowRange{.begin = 11, .end = 13}));
  EXPECT_THAT(LastOf(ranges, 3), ElementsAre(RowRange{.begin = 10, .end = 13}));
  EXPECT_THAT(LastOf(ranges, 4),
              ElementsAre(RowRange{.begin = 4, .end = 5}, RowRange{.begin = 10, .end = 13}));
  EXPECT_THAT(LastOf(ranges, 100), ElementsAre(ranges[0], ranges[1]));
  EXPECT_THAT(LastOf(ranges, 0), IsEmpty());
}

TEST_F(RowReaderTest, VisitGivesExactlyTheRange) {
  for (uint64_t first = 0; first < 30; first += 10) Append(first, 10, static_cast<int64_t>(first));
  EXPECT_THAT(StepsOf({{.begin = 8, .end = 12}}), ElementsAre(8, 9, 10, 11));
  uint64_t rows = 0;
  EXPECT_OK(VisitRunBatches(*reader_, run_, {.begin = 8, .end = 12},
                            [&](const model::Batch& batch, const Shapes&) {
                              rows += batch.rows();
                              return absl::OkStatus();
                            }));
  EXPECT_EQ(rows, 4u);
}

TEST_F(RowReaderTest, VisitStopsAtTheVisitorsError) {
  Append(0, 10, 0);
  int visits = 0;
  EXPECT_THAT(VisitRunRows(*reader_, run_, {.begin = 0, .end = 10},
                           [&](const Row& row) {
                             ++visits;
                             return row.position == 2 ? absl::CancelledError("enough")
                                                      : absl::OkStatus();
                           }),
              StatusIs(absl::StatusCode::kCancelled));
  EXPECT_EQ(visits, 3);
}

TEST_F(RowReaderTest, RowHasItsKeysValuesAndTexts) {
  const int64_t stream = NewStream();
  model::Batch batch = Dense(1, 2, 1, 2);
  batch.blocks[0].texts = {{.row = 1, .key = "note", .value = "b"},
                           {.row = 1, .key = "z", .value = ""}};
  Do([&] { EXPECT_OK(store_->Append(stream, batch)); });
  std::vector<size_t> texts;
  EXPECT_OK(VisitStreamRows(*reader_, stream, /*last_seq=*/2, [&](const Row& row) {
    EXPECT_EQ(row.owner, stream);
    EXPECT_EQ(row.position, texts.size() + 1);
    EXPECT_EQ(row.keys, Keys(2));
    EXPECT_THAT(row.values(),
                ElementsAre(row.position, static_cast<double>(row.position) + 1.0 / 16));
    texts.push_back(row.texts().size());
    return absl::OkStatus();
  }));
  EXPECT_THAT(texts, ElementsAre(0, 2));
}

TEST_F(RowReaderTest, LearnShapesReadsAgainForUnknownShape) {
  Shapes shapes = {{}, {"a"}};
  int reads = 0;
  const auto source = [&]() -> absl::StatusOr<Shapes> {
    ++reads;
    return Shapes{{}, {"a"}, {"a", "b"}};
  };
  EXPECT_OK(LearnShapes(Dense(1, 1, 1, 1), source, &shapes));
  EXPECT_EQ(reads, 0) << "it knew the shape";
  EXPECT_OK(LearnShapes(Dense(1, 1, 2, 2), source, &shapes));
  EXPECT_EQ(reads, 1);
  EXPECT_THAT(LearnShapes(Dense(1, 1, 3, 1), source, &shapes),
              StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(LearnShapes(Dense(1, 1, 2, 3), source, &shapes),
              StatusIs(absl::StatusCode::kDataLoss))
      << "another width";
}

}  // namespace
}  // namespace ranklog::query
