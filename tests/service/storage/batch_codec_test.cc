#include "service/storage/rows/batch_codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "service/storage/rows/crc32c.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"

namespace ranklog::storage {
namespace {

using ::ranklog::testing::Dense;
using ::ranklog::testing::IsOkAndHolds;
using ::ranklog::testing::Keys;
using ::ranklog::testing::StatusIs;

// Two blocks of several shapes, with texts, and with numbers at their limits.
model::Batch Odd() {
  model::Batch batch;
  batch.first = std::numeric_limits<uint64_t>::max() - 3;
  batch.last = batch.first + 2;
  model::Block numbers;
  numbers.shape = std::numeric_limits<uint32_t>::max();
  numbers.commits = numbers.counted = true;
  numbers.offsets = {0, 2};
  numbers.steps = {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()};
  numbers.times_us = {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()};
  numbers.values = {0.0, -0.0, std::numeric_limits<double>::infinity(),
                    std::numeric_limits<double>::denorm_min()};
  model::Block texts;
  texts.offsets = {1};
  texts.steps = {-1};
  texts.times_us = {0};
  texts.texts = {{0, "key", std::string("a\0b", 3)}, {0, "empty", ""}};
  batch.blocks = {numbers, texts};
  return batch;
}

model::Batch Typed() {
  model::Batch batch = Dense(1, 2, 3, 1);
  batch.blocks[0].texts = {
      {0, "flag", "true", true}, {1, "note", "true"}, {1, "null", "null", true}};
  return batch;
}

TEST(Crc32cTest, MatchesStandardVectors) {
  EXPECT_EQ(Crc32c(""), 0);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AA);  // RFC 3720 B.4
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43);
}

TEST(Crc32cTest, HardwareAndPortableResultsMatch) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Crc32c(bytes), Crc32cPortable(bytes)) << i;
    bytes.push_back(static_cast<char>(i * 37));
  }
}

TEST(BatchCodecTest, BatchSurvivesRoundTrip) {
  std::string blob;
  for (const model::Batch& batch : {Dense(1, 300, 3, 7), Odd(), Typed(), Dense(9, 1, 0, 0)}) {
    EncodeBatch(batch, blob);  // into memory that holds the previous batch
    EXPECT_THAT(DecodeBatch(blob), IsOkAndHolds(batch));
  }
}

TEST(BatchCodecTest, KeepsThePayloadOfNaN) {
  constexpr uint64_t kBits = 0x7ff80000deadbeef;
  model::Batch batch = Dense(1, 1, 1, 1);
  batch.blocks[0].values[0] = std::bit_cast<double>(kBits);
  std::string blob;
  EncodeBatch(batch, blob);
  ASSERT_OK_AND_ASSIGN(const model::Batch decoded, DecodeBatch(blob));
  EXPECT_EQ(std::bit_cast<uint64_t>(decoded.blocks[0].values[0]), kBits);
}

// Stores of version 1 have no other blobs.
TEST(BatchCodecTest, OnlyTypedValuesChangeTheFormat) {
  model::Batch batch = Typed();
  std::string typed, untyped;
  EncodeBatch(batch, typed);
  for (model::Text& text : batch.blocks[0].texts) text.json = false;
  EncodeBatch(batch, untyped);
  EXPECT_EQ(typed.size(), untyped.size() + batch.blocks[0].texts.size());
}

TEST(BatchCodecTest, OverheadPerValueIsSmall) {
  std::string blob;
  EncodeBatch(Dense(1, 256, 1, 10), blob);
  EXPECT_LT(blob.size(), 2560 * 8.5);
}

TEST(BatchCodecTest, FindsEveryFlippedBit) {
  std::string blob;
  EncodeBatch(Odd(), blob);
  for (size_t bit = 0; bit < blob.size() * 8; ++bit) {
    std::string damaged = blob;
    damaged[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    EXPECT_THAT(DecodeBatch(damaged), StatusIs(absl::StatusCode::kDataLoss)) << "bit " << bit;
  }
}

TEST(BatchCodecTest, DetectsTruncatedBytes) {
  std::string blob;
  EncodeBatch(Odd(), blob);
  for (size_t size = 0; size < blob.size(); ++size) {
    EXPECT_THAT(DecodeBatch(blob.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss))
        << size << " bytes";
  }
}

// Bytes that were never a batch, but have a valid checksum: no crash, no large allocation.
TEST(BatchCodecTest, RejectsBytesOfOtherFormat) {
  std::string blob;
  EncodeBatch(Odd(), blob);
  blob.resize(blob.size() - 4);
  for (size_t at = 0; at < blob.size(); ++at) {
    for (const char byte : {'\0', '\1', '\x7f', '\x80', '\xff'}) {
      std::string other = blob;
      other[at] = byte;
      const auto decoded = DecodeBatch(Sealed(other));
      if (!decoded.ok()) {
        EXPECT_THAT(decoded, StatusIs(absl::StatusCode::kDataLoss));
      }
    }
    EXPECT_THAT(DecodeBatch(Sealed(blob.substr(0, at))), StatusIs(absl::StatusCode::kDataLoss))
        << at;
  }
  EXPECT_THAT(DecodeBatch(Sealed(blob + "x")), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(KeysCodecTest, KeysSurviveRoundTrip) {
  std::vector<std::string> keys = Keys(1000);
  keys.push_back(std::string(70000, 'k'));
  keys.push_back("");
  EXPECT_THAT(DecodeKeys(EncodeKeys(keys)), IsOkAndHolds(keys));
  EXPECT_THAT(DecodeKeys(EncodeKeys({})), IsOkAndHolds(::testing::IsEmpty()));
}

TEST(KeysCodecTest, DetectsDamagedBytes) {
  const std::string blob = EncodeKeys(Keys(3));
  for (size_t at = 0; at < blob.size(); ++at) {
    std::string damaged = blob;
    damaged[at] ^= 4;
    EXPECT_THAT(DecodeKeys(damaged), StatusIs(absl::StatusCode::kDataLoss));
  }
  EXPECT_THAT(DecodeKeys(Sealed("\x05")), StatusIs(absl::StatusCode::kDataLoss));
}

TEST(BatchCodecTest, ABatchFitsItsOwnerOnly) {
  std::string blob;
  EncodeBatch(Odd(), blob, "stream 1");
  EXPECT_THAT(DecodeBatch(blob, "stream 1"), IsOkAndHolds(Odd()));
  EXPECT_THAT(DecodeBatch(blob, "stream 2"), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_THAT(DecodeBatch(blob), StatusIs(absl::StatusCode::kDataLoss));
  EncodeBatch(Odd(), blob);
  EXPECT_THAT(DecodeBatch(blob, "stream 1"), IsOkAndHolds(Odd())) << "sealed without an owner";
  const std::string keys = EncodeKeys({"a", "b"}, "stream 1");
  EXPECT_OK(DecodeKeys(keys, "stream 1"));
  EXPECT_THAT(DecodeKeys(keys, "stream 2"), StatusIs(absl::StatusCode::kDataLoss));
}

}  // namespace
}  // namespace ranklog::storage
