#include "service/ingest/stream_registry.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"
#include "tests/support/status_matchers.h"

namespace ranklog::ingest {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

model::Stream StreamOf(uint64_t incarnation) {
  model::Stream stream;
  stream.key = {"p", "j", 0, incarnation};
  stream.id = 5;
  stream.run = 6;
  return stream;
}

std::shared_ptr<const RingFile> SomeRing() {
  UniqueFd fd(memfd_create("ring", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(fd.get(), v1::kSpoolDataOffset + v1::kMinRingBytes), 0);
  Peer peer;
  peer.uid = geteuid();
  auto ring = RingFile::FromDescriptor(std::move(fd), peer);
  EXPECT_OK(ring);
  return *ring;
}

class StreamRegistryTest : public ::testing::Test {
 protected:
  int wakes_ = 0;
  StreamRegistry registry_{[this] { ++wakes_; }};
  const model::Stream stream_ = StreamOf(1);
};

TEST_F(StreamRegistryTest, OnlyTheNewestAttachmentCounts) {
  const uint64_t first = registry_.Attach(stream_, nullptr, nullptr);
  const uint64_t second = registry_.Attach(stream_, nullptr, nullptr);
  registry_.Detach(stream_.key, first);
  EXPECT_EQ(registry_.CountAttached().streams, 1u);
  EXPECT_THAT(registry_.Detached(), IsEmpty());
  registry_.Detach(stream_.key, second);
  EXPECT_EQ(registry_.CountAttached().streams, 0u);
  EXPECT_THAT(registry_.Detached(), SizeIs(1));
  EXPECT_GE(wakes_, 3);
}

TEST_F(StreamRegistryTest, CountsRanksAndJobsOnce) {
  uint64_t incarnation = 0;
  uint64_t attachment = 0;
  model::Stream last;
  for (const char* job : {"a", "b"}) {
    for (const uint32_t rank : {0, 1, 1}) {  // rank 1 has two threads
      last = StreamOf(++incarnation);
      last.key.job_id = job;
      last.key.rank = rank;
      attachment = registry_.Attach(last, nullptr, nullptr);
    }
  }
  registry_.AddKnown(StreamOf(++incarnation));  // of a third job; not attached
  EXPECT_EQ(registry_.CountAttached().streams, 6u);
  EXPECT_EQ(registry_.CountAttached().jobs, 2u);
  EXPECT_EQ(registry_.CountAttached().ranks, 4u);
  registry_.Detach(last.key, attachment);
  EXPECT_EQ(registry_.CountAttached().streams, 5u);
  EXPECT_EQ(registry_.CountAttached().ranks, 4u);
}

TEST_F(StreamRegistryTest, DescriptorFollowsStream) {
  registry_.OfferRing(1, SomeRing());  // of no known stream
  registry_.Attach(stream_, nullptr, nullptr);
  EXPECT_EQ(registry_.Find(stream_.key)->ring, nullptr);
  registry_.OfferRing(1, SomeRing());
  EXPECT_NE(registry_.Find(stream_.key)->ring, nullptr);
}

// A lock on the ring as its rank holds it.
UniqueFd LockOf(const RingFile& ring) {
  UniqueFd fd(open(absl::StrCat("/proc/self/fd/", ring.fd()).c_str(), O_RDWR | O_CLOEXEC));
  struct flock lock {};
  lock.l_type = F_WRLCK;
  EXPECT_EQ(fcntl(fd.get(), F_OFD_SETLK, &lock), 0);
  return fd;
}

TEST_F(StreamRegistryTest, FinishedRingIsTakenOnceReleased) {
  const std::shared_ptr<const RingFile> ring = SomeRing();
  UniqueFd rank = LockOf(*ring);
  registry_.Attach(stream_, ring, nullptr);
  registry_.Finish(stream_.key, {.invalid = 3});
  EXPECT_FALSE(registry_.Find(stream_.key));
  EXPECT_THAT(registry_.TakeReleased(), IsEmpty());
  rank = UniqueFd();
  const std::vector<FinishedStream> released = registry_.TakeReleased();
  ASSERT_THAT(released, SizeIs(1));
  EXPECT_EQ(released[0].id, stream_.id);
  EXPECT_EQ(released[0].ring, ring);
  EXPECT_EQ(released[0].losses, model::Losses{.invalid = 3});
  EXPECT_THAT(registry_.TakeReleased(), IsEmpty());
  registry_.PutBack(released[0]);
  EXPECT_THAT(registry_.TakeReleased(), SizeIs(1));
}

TEST_F(StreamRegistryTest, HeldFinishedRingsAreBounded) {
  const std::shared_ptr<const RingFile> ring = SomeRing();
  const UniqueFd rank = LockOf(*ring);
  for (uint64_t i = 0; i < StreamRegistry::kMaxFinished + 2; ++i) {
    const model::Stream stream = StreamOf(i + 1);
    registry_.Attach(stream, ring, nullptr);
    registry_.Finish(stream.key, {.invalid = i});
  }
  const std::vector<FinishedStream> taken = registry_.TakeReleased();
  ASSERT_THAT(taken, SizeIs(2));
  EXPECT_EQ(taken[0].losses.invalid, 0u) << "not the oldest";
  EXPECT_THAT(registry_.TakeReleased(), IsEmpty());
}

TEST_F(StreamRegistryTest, DescriptorMustBePeersFile) {
  Peer other;
  other.uid = geteuid() + 1;
  UniqueFd fd(memfd_create("ring", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), v1::kSpoolDataOffset), 0);
  EXPECT_THAT(RingFile::FromDescriptor(std::move(fd), other),
              ::ranklog::testing::StatusIs(absl::StatusCode::kPermissionDenied));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd writing(ends[1]);
  Peer self;
  self.uid = geteuid();
  EXPECT_THAT(RingFile::FromDescriptor(UniqueFd(ends[0]), self),
              ::ranklog::testing::StatusIs(absl::StatusCode::kPermissionDenied));
}

}  // namespace
}  // namespace ranklog::ingest
