#include "service/ingest/ring/spool_reader.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ring_image.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::Put;
using ::ranklog::testing::StatusIs;
using Image = ::ranklog::testing::RingImage;
using ::testing::ElementsAre;

constexpr auto kDamaged = absl::StatusCode::kDataLoss;

class SpoolReaderTest : public ::testing::Test {
 protected:
  ~SpoolReaderTest() override {
    if (fd_ >= 0) close(fd_);
  }
  absl::StatusOr<SpoolReader> Open() {
    if (fd_ >= 0) close(fd_);
    fd_ = open(dir_.File("ring").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    EXPECT_EQ(write(fd_, image_.bytes().data(), image_.bytes().size()),
              static_cast<ssize_t>(image_.bytes().size()));
    return SpoolReader::Open(fd_);
  }
  absl::Status ReadAll() {
    absl::StatusOr<SpoolReader> reader = Open();
    if (!reader.ok()) return reader.status();
    while (true) {
      absl::StatusOr<SpoolReader::Part> part = reader->Next(1 << 20);
      if (!part.ok()) return part.status();
      if (part->empty()) return absl::OkStatus();
    }
  }

  testing::TempDir dir_;
  Image image_;
  int fd_ = -1;
};

TEST_F(SpoolReaderTest, ReadsEverythingTheRankLeft) {
  image_.Shape(1, {"loss", "lr"});
  image_.Row(1, 10, {0.5, 1e-3});
  image_.Row(2, 11, {0.25, 1e-3});
  v1::Item config;
  config.mutable_config()->add_fields()->set_key("lr");
  image_.Item(1, /*after_row=*/2, config.SerializeAsString());
  image_.Item(2, /*after_row=*/2, "\xff");
  image_.header().lost_ring_full = 7;
  image_.header().finished = 1;
  image_.header().exit_code = 3;

  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  EXPECT_EQ(reader.hello(), "hello");
  EXPECT_EQ(reader.incarnation(), 42u);
  EXPECT_EQ(reader.rows(), 2u);
  EXPECT_EQ(reader.losses().ring_full, 7u);
  EXPECT_TRUE(reader.finished());
  EXPECT_EQ(reader.exit_code(), 3);
  ASSERT_OK_AND_ASSIGN(SpoolReader::Part part, reader.Next(1 << 20));
  ASSERT_EQ(part.shapes.size(), 1u);
  EXPECT_THAT(part.shapes[0].keys, ElementsAre("loss", "lr"));
  ASSERT_EQ(part.items.size(), 2u);
  EXPECT_TRUE(part.items[0].object.contains("lr"));
  EXPECT_EQ(part.items[0].after_row, 2u);
  EXPECT_EQ(part.items[1].kind, model::Item::Kind::kUnreadable);
  EXPECT_OK(model::Validate(part.batch));
  EXPECT_EQ(part.batch.first, 1u);
  EXPECT_EQ(part.batch.last, 2u);
  ASSERT_EQ(part.batch.blocks.size(), 1u);
  EXPECT_THAT(part.batch.blocks[0].values, ElementsAre(0.5, 1e-3, 0.25, 1e-3));
  EXPECT_THAT(part.batch.blocks[0].steps, ElementsAre(10, 11));
  EXPECT_THAT(part.batch.blocks[0].times_us, ElementsAre(1'000'001, 1'000'002));
  ASSERT_OK_AND_ASSIGN(part, reader.Next(1 << 20));
  EXPECT_TRUE(part.empty());
}

// A row with only this text.
void AddTextRow(Image& image, uint64_t seq, const std::string& value, uint16_t json) {
  v1::RowRecord row = {};
  row.seq = seq;
  row.text_bytes = static_cast<uint32_t>(sizeof(v1::TextHeader) + 1 + value.size());
  row.text_count = 1;
  std::string body(reinterpret_cast<const char*>(&row) + sizeof(v1::RecordHeader),
                   sizeof row - sizeof(v1::RecordHeader));
  Put(&body, v1::TextHeader{1, json, static_cast<uint32_t>(value.size())});
  image.Append(v1::RecordKind::kRow, 0, body + "k" + value);
  image.header().rows = seq;
}

TEST_F(SpoolReaderTest, ReadsTypesOfTexts) {
  AddTextRow(image_, 1, "true", 0);
  AddTextRow(image_, 2, "true", 1);
  image_.header().lost_values = 3;
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  ASSERT_OK_AND_ASSIGN(const SpoolReader::Part part, reader.Next(1 << 20));
  EXPECT_THAT(part.batch.blocks.at(0).texts,
              ElementsAre(model::Text{0, "k", "true"}, model::Text{1, "k", "true", true}));
  EXPECT_EQ(reader.losses().values, 3u);
}

TEST_F(SpoolReaderTest, TextThatIsNotJsonIsDamage) {
  AddTextRow(image_, 1, "tru", 1);
  EXPECT_THAT(ReadAll(), StatusIs(kDamaged));
}

TEST_F(SpoolReaderTest, ReadsInPartsAndWrapsAround) {
  image_.header().tail = Image::kRing - 64;
  image_.header().head = Image::kRing - 64;
  image_.Row(5, 1, {1.0});  // 56 bytes
  image_.Append(v1::RecordKind::kPad, 0, "");
  for (uint64_t seq = 6; seq < 100; ++seq) image_.Row(seq, 1, {1.0});
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  uint64_t next = 5;
  while (true) {
    ASSERT_OK_AND_ASSIGN(const SpoolReader::Part part, reader.Next(200));
    if (part.empty()) break;
    EXPECT_EQ(part.batch.first, next);
    next = part.batch.last + 1;
  }
  EXPECT_EQ(next, 100u);
}

TEST_F(SpoolReaderTest, RecordBeyondHeadIsIgnored) {
  image_.Row(1, 1, {1.0});
  const uint64_t head = image_.header().head.load();
  image_.Row(2, 2, {2.0});
  image_.header().head = head;  // the rank died before it published the row
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  ASSERT_OK_AND_ASSIGN(const SpoolReader::Part part, reader.Next(1 << 20));
  EXPECT_EQ(part.batch.last, 1u);
}

// The process has counted a row, and is interrupted before it publishes it.
TEST_F(SpoolReaderTest, EmptyLiveRingMayStillGetTheRowThatIsCounted) {
  image_.Row(1, 1, {1.0});
  image_.header().tail = image_.header().head.load();
  image_.header().rows = 2;
  ASSERT_OK_AND_ASSIGN(const SpoolReader reader, Open());
  EXPECT_EQ(reader.FirstSeq(/*lives=*/true), 2u);
  EXPECT_EQ(reader.FirstSeq(/*lives=*/false), 3u);
}

TEST_F(SpoolReaderTest, RefreshFollowsALiveRing) {
  image_.Row(1, 1, {1.0});
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  ASSERT_OK_AND_ASSIGN(SpoolReader::Part part, reader.Next(1 << 20));
  EXPECT_EQ(part.batch.last, 1u);
  const auto rewrite = [this] {
    EXPECT_EQ(pwrite(fd_, image_.bytes().data(), image_.bytes().size(), 0),
              static_cast<ssize_t>(image_.bytes().size()));
  };
  image_.Row(2, 2, {2.0});
  image_.header().least_step = 2;
  rewrite();
  ASSERT_OK(reader.Refresh());
  EXPECT_EQ(reader.least_step(), 2);
  ASSERT_OK_AND_ASSIGN(part, reader.Next(1 << 20));
  EXPECT_EQ(part.batch.first, 2u);
  EXPECT_EQ(reader.last_seq(), 2u);

  // Its process frees what an earlier daemon has stored.
  image_.Row(3, 3, {3.0});
  image_.header().tail = image_.header().head.load();
  image_.Row(4, 4, {4.0});
  rewrite();
  ASSERT_OK(reader.Refresh());
  ASSERT_OK_AND_ASSIGN(part, reader.Next(1 << 20));
  EXPECT_EQ(part.batch.first, 4u);
}

TEST_F(SpoolReaderTest, NoHelloYetIsNoDamage) {
  image_.header().hello_bytes = 0;
  image_.header().magic = 0;
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kUnavailable));
}

// A later layout may have its Hello elsewhere. Such a ring must not count as unfinished, since it
// would be removed.
TEST_F(SpoolReaderTest, LaterLayoutIsNotRead) {
  image_.header().version = v1::kSpoolVersion + 1;
  image_.header().hello_bytes = 0;
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition,
                               ::testing::HasSubstr("run the ranklogd that came with")));
  image_.header().magic += 1;
  EXPECT_THAT(Open(), StatusIs(kDamaged)) << "no ring of ours";
}

TEST_F(SpoolReaderTest, InconsistentHeadersAreRefused) {
  const auto refused = [this](auto lie) {
    image_ = Image();
    image_.Row(1, 1, {1.0});
    lie(image_.header());
    EXPECT_THAT(ReadAll(), StatusIs(kDamaged));
  };
  refused([](v1::SpoolHeader& h) { h.magic = 1; });
  refused([](v1::SpoolHeader& h) { h.data_bytes = 1ULL << 60; });
  refused([](v1::SpoolHeader& h) { h.data_bytes = 2 * Image::kRing; });
  refused([](v1::SpoolHeader& h) { h.data_offset = 0; });
  refused([](v1::SpoolHeader& h) { h.hello_bytes = 1 << 30; });
  refused([](v1::SpoolHeader& h) { h.head = h.head + 4; });
  refused([](v1::SpoolHeader& h) { h.head = std::numeric_limits<uint64_t>::max() - 7; });
  refused([](v1::SpoolHeader& h) { h.tail = h.head + 8; });
  refused([](v1::SpoolHeader& h) { h.rows = 0; });
  image_ = Image();
  image_.header().version = 2;
  EXPECT_THAT(Open(), StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(SpoolReaderTest, InvalidRecordEndsTheRing) {
  // The second row starts at byte 56. Offsets of its fields: bytes 0, kind 4, shape 8, values 12,
  // seq 16, text bytes 40, texts 44.
  const std::vector<std::pair<size_t, uint32_t>> lies = {
      {0, 0},  {0, 4},         {0, 1 << 20}, {0, 0xfffffff8}, {4, 99},          {8, 0},
      {12, 2}, {12, 1u << 30}, {16, 1},      {16, 9},         {40, 0xffffffff}, {44, 1}};
  for (const auto& [offset, value] : lies) {
    SCOPED_TRACE(offset);
    image_ = Image();
    image_.Row(1, 1, {1.0});
    image_.Row(2, 2, {2.0});
    image_.Poke(56 + offset, value);
    ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
    ASSERT_OK_AND_ASSIGN(const SpoolReader::Part part, reader.Next(1 << 20));
    EXPECT_EQ(part.batch.last, 1u);
    EXPECT_THAT(reader.Next(1 << 20), StatusIs(kDamaged));
  }
}

TEST_F(SpoolReaderTest, FallingStepEndsTheRing) {
  image_.Row(1, 5, {1.0});
  image_.Row(2, 4, {2.0});
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  ASSERT_OK_AND_ASSIGN(const SpoolReader::Part part, reader.Next(1 << 20));
  EXPECT_EQ(part.batch.last, 1u);
  EXPECT_OK(model::Validate(part.batch));
  EXPECT_THAT(reader.Next(1 << 20), StatusIs(kDamaged));
}

TEST_F(SpoolReaderTest, InvalidKeysAreRefused) {
  for (const std::string& key : {std::string(), std::string(1025, 'k'), std::string("\xff")}) {
    image_ = Image();
    image_.Shape(1, {key});
    EXPECT_THAT(ReadAll(), StatusIs(kDamaged));
  }
}

TEST_F(SpoolReaderTest, TruncatedFileIsAnError) {
  image_.Row(1, 1, {1.0});
  ASSERT_OK_AND_ASSIGN(SpoolReader reader, Open());
  ASSERT_EQ(ftruncate(fd_, v1::kSpoolDataOffset), 0);
  EXPECT_THAT(reader.Next(1 << 20), StatusIs(kDamaged));
}

TEST_F(SpoolReaderTest, NoiseNeverCrashes) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    image_ = Image();
    image_.Shape(1, {"a"});
    for (uint64_t seq = 1; seq < 20; ++seq) image_.Row(seq, 1, {1.0});
    for (int flips = 0; flips < 4; ++flips) {
      const size_t at = random() % 2 == 0 ? random() % sizeof(v1::SpoolHeader)
                                          : v1::kSpoolDataOffset + random() % 1200;
      image_.bytes()[at] = static_cast<char>(random());
    }
    ReadAll().IgnoreError();  // any result is right
  }
}

}  // namespace
}  // namespace ranklog::ingest
