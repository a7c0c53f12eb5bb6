#include "service/ingest/ring/content_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "client/content/content_files.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ContentDirTest : public ::testing::Test {
 protected:
  static std::string Config() {
    v1::Item item;
    v1::Field* const field = item.mutable_config()->add_fields();
    field->set_key("lr");
    field->mutable_value()->set_number(0.5);
    return item.SerializeAsString();
  }
  v1::Item Reference(const std::string& name, uint64_t bytes) const {
    v1::Item item;
    item.set_seq(3);
    item.set_after_row(2);
    item.mutable_file()->set_name(name);
    item.mutable_file()->set_bytes(bytes);
    return item;
  }
  absl::StatusOr<v1::Item> Read(const v1::Item& reference) const {
    return content_->Read(reference);
  }
  std::string Path(const std::string& name) const { return dir_.File("content/" + name); }

  const testing::TempDir dir_;
  const std::unique_ptr<ContentDir> content_ =
      ContentDir::Open(dir_.path(), /*quota=*/1000, absl::Now()).value();
};

TEST_F(ContentDirTest, ReadsWhatTheRankWrote) {
  ASSERT_OK_AND_ASSIGN(const v1::ContentFile file,
                       internal::WriteContentFile(content_->Place(), Config()));
  std::vector<v1::Item> items = {Reference(file.name(), file.bytes())};
  EXPECT_THAT(ReadContent(content_.get(), &items), ElementsAre(file.name()));
  EXPECT_EQ(items[0].config().fields(0).key(), "lr");
  EXPECT_EQ(items[0].seq(), 3u);
  EXPECT_EQ(items[0].after_row(), 2u);
  EXPECT_EQ(ContentDir::BytesIn(dir_.path()), static_cast<int64_t>(Config().size()));
  content_->Remove({file.name()});
  EXPECT_EQ(ContentDir::BytesIn(dir_.path()), 0);
}

TEST_F(ContentDirTest, UnreadableReferencesLoseTheirContent) {
  std::ofstream(Path("short")) << "x";
  std::ofstream(Path("no_item")) << std::string(8, '\xff');
  v1::Item nested = Reference("other", 1);
  std::ofstream(Path("nested")) << nested.SerializeAsString();
  std::ofstream(dir_.File("outside")) << Config();
  std::filesystem::create_symlink(dir_.File("outside"), Path("link"));
  ASSERT_EQ(mkfifo(Path("pipe").c_str(), 0600), 0);
  const uint64_t bytes = Config().size();
  for (const v1::Item& reference :
       {Reference("absent", bytes), Reference("short", bytes), Reference("no_item", 8),
        Reference("nested", nested.ByteSizeLong()), Reference("link", bytes),
        Reference("pipe", bytes), Reference("../outside", bytes), Reference("", bytes),
        Reference(".", bytes), Reference("short", UINT64_MAX)}) {
    EXPECT_THAT(Read(reference), StatusIs(absl::StatusCode::kDataLoss)) << reference.file().name();
    std::vector<v1::Item> items = {reference};
    EXPECT_THAT(ReadContent(content_.get(), &items), IsEmpty());
    EXPECT_EQ(items[0].content_case(), v1::Item::CONTENT_NOT_SET);
    EXPECT_EQ(items[0].seq(), 3u);
  }
}

TEST_F(ContentDirTest, QuotaCountsAllFiles) {
  std::ofstream(Path("other")) << std::string(990, 'x');
  EXPECT_THAT(internal::WriteContentFile(content_->Place(), std::string(11, 'x')),
              StatusIs(absl::StatusCode::kResourceExhausted,
                       HasSubstr("has 990 of 1000 bytes; raise --content-bytes")));
  EXPECT_OK(internal::WriteContentFile(content_->Place(), std::string(10, 'x')));
}

TEST_F(ContentDirTest, RankThatSeesAnotherDirectoryUsesNone) {
  v1::ContentPlace place = content_->Place();
  place.set_inode(place.inode() + 1);
  EXPECT_THAT(internal::WriteContentFile(place, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
  place.set_dir(dir_.File("absent"));
  EXPECT_THAT(internal::WriteContentFile(place, "x"),
              StatusIs(absl::StatusCode::kFailedPrecondition));
}

TEST_F(ContentDirTest, OldFilesAreRemovedAtStart) {
  std::ofstream(Path("left")) << "x";
  ASSERT_OK(ContentDir::Open(dir_.path(), 1000, absl::Now() + absl::Hours(24 * 29)));
  EXPECT_TRUE(std::filesystem::exists(Path("left")));
  ASSERT_OK(ContentDir::Open(dir_.path(), 1000, absl::Now() + absl::Hours(24 * 31)));
  EXPECT_FALSE(std::filesystem::exists(Path("left")));
}

}  // namespace
}  // namespace ranklog::ingest
