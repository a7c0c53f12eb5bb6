#include "trainer/start_check.h"

#include <ATen/ATen.h>

#include "tests/support/status_matchers.h"

namespace ranklog::trainer {
namespace {

using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr char kPath[] = "out/a/checkpoint-00000007.safetensors";

class StartCheckTest : public ::testing::Test {
 protected:
  Fingerprint NewFacts() const {
    return FingerprintOf(options_, settings_, MakePlan(options_, corpus_, 2), corpus_, 2);
  }
  absl::StatusOr<std::vector<std::string>> Resume(int64_t steps = 300) const {
    return CheckResume(checkpoint_, kPath, NewFacts(), steps);
  }

  Options options_;
  Settings settings_;
  Corpus corpus_{.source = "text",
                 .train = Tokens(std::vector<uint8_t>(1000, 'a')),
                 .validation = {},
                 .vocabulary = 256};
  Checkpoint checkpoint_{.step = 7, .options = NewFacts()};
};

TEST_F(StartCheckTest, SameTrainingIsAccepted) { EXPECT_THAT(Resume(), IsOkAndHolds(IsEmpty())); }

TEST_F(StartCheckTest, NamesOptionsThatChangeLossCurve) {
  options_.lr = 0.5;
  options_.val_every = 3;
  EXPECT_THAT(Resume(),
              IsOkAndHolds(ElementsAre("lr is 0.5 and was 0", "val-every is 3 and was 50")));
}

// With another OMP_NUM_THREADS, the same sums have another order.
TEST_F(StartCheckTest, NamesAnotherNumberOfThreads) {
  const std::string threads = std::to_string(at::get_num_threads());
  checkpoint_.options["threads"] = "77";
  EXPECT_THAT(Resume(), IsOkAndHolds(ElementsAre("threads is " + threads + " and was 77")));
}

TEST_F(StartCheckTest, RefusesAnotherTraining) {
  options_.seed = 5;
  EXPECT_THAT(Resume().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(kPath), HasSubstr("seed is 5 and was 1"))));
}

TEST_F(StartCheckTest, RejectsChangedDataOfSameLength) {
  std::vector<uint8_t> text(1000, 'a');
  text[500] = 'b';
  corpus_.train = Tokens(text);
  EXPECT_THAT(Resume().status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("with another text or tokenizer: "),
                                                HasSubstr("CRC-32 of the training tokens is "))));
}

TEST_F(StartCheckTest, RefusesAnotherProjectOrStrategy) {
  settings_.project = "zz";
  settings_.log_strategy = LogStrategy::kAll;
  EXPECT_THAT(Resume().status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                          AllOf(HasSubstr("project is zz and was empty; "),
                                                HasSubstr("log-strategy is all and was main"))));
}

TEST_F(StartCheckTest, IgnoresOptionsMissingInOlderCheckpoint) {
  checkpoint_.options.erase("project");
  settings_.project = "zz";
  EXPECT_OK(Resume().status());
}

TEST_F(StartCheckTest, RefusesFewerStepsThanAreDone) {
  EXPECT_OK(Resume(/*steps=*/7).status());
  EXPECT_THAT(
      Resume(/*steps=*/6).status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr(kPath), HasSubstr("is of step 7"), HasSubstr("ends after step 6"))));
}

TEST_F(StartCheckTest, WeightsMustFitTheModel) {
  EXPECT_OK(CheckInitFrom(checkpoint_, kPath, NewFacts()));
  options_.seed = 9;
  options_.batch_size = 1;
  EXPECT_OK(CheckInitFrom(checkpoint_, kPath, NewFacts()));
  options_.model = "small";
  options_.seq_len = 64;
  EXPECT_THAT(CheckInitFrom(checkpoint_, kPath, NewFacts()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr(std::string("--init-from ") + kPath),
                             HasSubstr("model is small and was tiny"),
                             HasSubstr("seq-len is 64 and was 128"), Not(HasSubstr("seed")))));
}

}  // namespace
}  // namespace ranklog::trainer
