#include "trainer/parallel/ddp.h"

#include <cmath>
#include <cstdlib>

#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/gradient_example.h"
#include "trainer/parallel/launcher.h"
#include "trainer/parallel/process_group.h"
#include "trainer/train.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::StatusIs;

constexpr int kRanks = 2;

double RelativeDistance(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// Runs gradient_rank.cc as two processes that connect over the loopback interface, once for all
// tests.
class DdpTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    dir_ = new ranklog::testing::TempDir();
    ASSERT_OK_AND_ASSIGN(const HostedStore store, HostedStore::Serve());
    int received = 0;
    ASSERT_OK(Launch({.command = {TRAINER_RANK, "gradients", dir_->path()},
                      .ranks = kRanks,
                      .master_port = store.port()},
                     &received));
  }
  static void TearDownTestSuite() {
    delete dir_;
    dir_ = nullptr;
  }
  static std::vector<float> Read(const std::string& kind, int64_t step, int rank) {
    return ReadFloats(dir_->File(kind + "." + std::to_string(step) + "." + std::to_string(rank)));
  }

  static inline ranklog::testing::TempDir* dir_ = nullptr;
};

TEST_F(DdpTest, GradientsAreBitwiseEqualAcrossRanks) {  // S26
  for (int64_t step = 0; step < kSteps; ++step) {
    const std::vector<float> first = Read("synced", step, 0);
    ASSERT_GT(first.size(), 800000u);
    EXPECT_TRUE(first == Read("synced", step, 1)) << "step " << step;
  }
}

TEST_F(DdpTest, EarlierMicroBatchesStayLocal) {  // S27
  for (int64_t step = 0; step < kSteps; ++step) {
    EXPECT_GT(RelativeDistance(Read("local", step, 0), Read("local", step, 1)), 0.01)
        << "step " << step;
  }
}

TEST_F(DdpTest, GradientsMatchOneLargeBatch) {  // S27
  Gpt model(ExampleShape(), /*seed=*/1);
  for (int64_t step = 0; step < kSteps; ++step) {
    ExampleLoss(model, step, 0, kRanks * kMicroBatches * kMicroBatch).backward();
    EXPECT_LT(RelativeDistance(Read("synced", step, 0), Gradients(model)), 1e-5) << "step " << step;
    Descend(model);
  }
}

TEST_F(DdpTest, AllReducesStartDuringBackwardPass) {  // S26
  for (int rank = 0; rank < kRanks; ++rank) {
    for (int64_t step = 0; step < kSteps; ++step) {
      const std::vector<float> overlap = Read("overlap", step, rank);
      ASSERT_EQ(overlap.size(), 2u);
      EXPECT_GE(overlap[0], 1) << "step " << step;
      EXPECT_GT(overlap[1], overlap[0]) << "step " << step;
    }
  }
}

TEST_F(DdpTest, ValidationLossIsMeanOverRanks) {  // S32
  // Two ranks took the same steps as this process alone: see GradientsMatchOneLargeBatch.
  Gpt model(ExampleShape(), /*seed=*/1);
  for (int64_t step = 0; step < kSteps; ++step) {
    ExampleLoss(model, step, 0, kRanks * kMicroBatches * kMicroBatch).backward();
    Descend(model);
  }
  const std::vector<uint8_t> text = ValidationText();
  ProcessGroup alone = ProcessGroup::Alone();
  const double expected = Validate(model, Tokens(text), ValidationOptions(), alone);
  for (int rank = 0; rank < kRanks; ++rank) {
    const std::vector<float> loss = Read("validation", kSteps, rank);
    ASSERT_EQ(loss.size(), 1u);
    EXPECT_NEAR(loss[0], expected, 1e-4) << "rank " << rank;
  }
  // The sequences differ, so the mean of one rank's share would be another number.
  const std::vector<uint8_t> first(text.begin(), text.begin() + kSequenceLength + 1);
  EXPECT_GT(std::abs(Validate(model, Tokens(first), ValidationOptions(), alone) - expected), 1e-2);
}

TEST(ProcessGroupTest, SingleRankGroupNeedsNoPeers) {
  ProcessGroup alone = ProcessGroup::Alone();
  at::Tensor value = at::full({2}, 3.0);
  alone.Sum(value);
  alone.Max(value);
  EXPECT_EQ(value[0].item<double>(), 3.0);
  EXPECT_EQ(alone.FromRankZero("key", [] { return std::string("made"); }), "made");
  alone.Leave();
}

TEST(RendezvousTest, RejectsMissingOrInvalidVariables) {
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
  EXPECT_OK(Rendezvous::FromEnvironment(0, 1).status());
  EXPECT_THAT(Rendezvous::FromEnvironment(0, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::HasSubstr("MASTER_ADDR")));
  setenv("MASTER_ADDR", "localhost", 1);
  setenv("MASTER_PORT", "65536", 1);
  EXPECT_THAT(Rendezvous::FromEnvironment(0, 2).status(),
              StatusIs(absl::StatusCode::kInvalidArgument));
  setenv("MASTER_PORT", "29500", 1);
  EXPECT_OK(Rendezvous::FromEnvironment(0, 2).status());
}

}  // namespace
}  // namespace ranklog::trainer
