#include "service/model/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ranklog::model {
namespace {

TEST(IsNumberedTest, NumbersStartAtTwo) {
  for (const char* id : {"job", "job-2", "job-17"}) EXPECT_TRUE(IsNumbered(id, "job")) << id;
  for (const char* id : {"jo", "jobs", "job-", "job-0", "job-1", "job-2-2", "job-2-pending"}) {
    EXPECT_FALSE(IsNumbered(id, "job")) << id;
  }
}

// The marks must equal those of every daemon that ever made such an id.
TEST(WithNumberTest, LongIdIsCutAndMarked) {
  EXPECT_EQ(WithNumber("job", 2), "job-2");
  const std::string fits(126, 'x');
  EXPECT_EQ(WithNumber(fits, 2), fits + "-2");
  EXPECT_TRUE(IsNumbered(fits + "-2", fits));
  const std::string id(127, 'x');
  const std::string kept(117, 'x');
  EXPECT_EQ(WithNumber(id, 2), kept + "-bd7d7c85-2");
  EXPECT_EQ(WithNumber(id, 10), kept.substr(1) + "-bd7d7c85-10");
  EXPECT_NE(WithNumber(id + "y", 2), WithNumber(id + "z", 2));
  for (const uint32_t number : {2u, 10u, 4294967295u}) {
    EXPECT_EQ(WithNumber(id, number).size(), kMaxIdBytes);
    EXPECT_TRUE(IsNumbered(WithNumber(id, number), id)) << number;
    EXPECT_FALSE(IsNumbered(WithNumber(id, number), id + "y")) << number;
  }
}

TEST(NumberNoticeTest, OnlyNumberedRunsGetANotice) {
  std::string notice;
  for (const char* id : {"job", "job-3", "job-3-pending", ""}) {
    EXPECT_FALSE(AddNumberNotice("job", id, 3, &notice)) << id;
  }
  EXPECT_EQ(notice, "");
  EXPECT_TRUE(AddNumberNotice("job", "job-3-2", 3, &notice));
  EXPECT_TRUE(AddNumberNotice("job", "job-2", 0, &notice));
  EXPECT_EQ(notice,
            "another run has the id 'job-3': this one is 'job-3-2'; "
            "another run has the id 'job': this one is 'job-2'");
}

// Items before the first upload, such as the config, are delivered while it goes on.
TEST(DeliveryTest, ProgressIsThatOfTheNextUpload) {
  Delivery delivery;
  delivery.delivered_items = 3;
  delivery.cursor = {{"content", 0}, {"content_files", 1}, {"content_bytes", 500}};
  EXPECT_EQ(delivery.uploads().through, 3);
  EXPECT_EQ(delivery.uploads().sent_files, 1u);
  EXPECT_EQ(delivery.uploads().sent_bytes, 500u);
}

}  // namespace
}  // namespace ranklog::model
