#include "service/daemon/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "service/storage/rows/damage.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(OpenStoreTest, UndamagedStoreStaysInPlace) {
  const testing::TempDir dir;
  std::string set_aside;
  ASSERT_OK(OpenStore(dir.path(), &set_aside).status());
  ASSERT_OK(OpenStore(dir.path(), &set_aside).status());
  EXPECT_THAT(storage::SetAsideStores(dir.path()), IsEmpty());
  EXPECT_EQ(set_aside, "");
}

TEST(OpenStoreTest, DamagedStoreIsSetAside) {
  const testing::TempDir dir;
  std::string set_aside;
  std::ofstream(dir.path() + "/ranklog.db") << "not a database";
  ASSERT_OK(OpenStore(dir.path(), &set_aside).status());
  ASSERT_THAT(storage::SetAsideStores(dir.path()), SizeIs(1));
  EXPECT_THAT(set_aside,
              HasSubstr("run `ranklog recover " + storage::SetAsideStores(dir.path())[0] + "`"));
  ASSERT_OK(OpenStore(dir.path(), &set_aside).status());  // the new store
  EXPECT_THAT(storage::SetAsideStores(dir.path()), SizeIs(1));
}

}  // namespace
}  // namespace ranklog::daemon
