#include "service/daemon/open_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "service/storage/recovery/damage.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(OpenStoreTest, UndamagedStoreStaysInPlace) {
  const testing::TempDir dir;
  ASSERT_OK(OpenStore(dir.path()).status());
  ASSERT_OK(OpenStore(dir.path()).status());
  EXPECT_THAT(storage::SetAsideStores(dir.path()), IsEmpty());
}

TEST(OpenStoreTest, DamagedStoreIsSetAside) {
  const testing::TempDir dir;
  std::ofstream(dir.path() + "/ranklog.db") << "not a database";
  ASSERT_OK(OpenStore(dir.path()).status());
  EXPECT_THAT(storage::SetAsideStores(dir.path()), SizeIs(1));
  ASSERT_OK(OpenStore(dir.path()).status());  // the new store
  EXPECT_THAT(storage::SetAsideStores(dir.path()), SizeIs(1));
}

}  // namespace
}  // namespace ranklog::daemon
