// A trainer that links LibTorch beside libranklog.so.

#include <gtest/gtest.h>

#include "tests/client/fake_ingest.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {
namespace {

TEST(LibTorchTest, LibTorchAndRanklogShareProcess) {
  TempDir dir;
  FakeIngest daemon(dir.File("sock"));
  daemon.Start();
  const Finished program =
      RunToEnd({LIBTORCH_PROGRAM}, {{{"RANKLOG_ADDRESS", "unix:" + dir.File("sock")},
                                     {"RANKLOG_SPOOL_DIR", dir.path()},
                                     {"OMP_NUM_THREADS", "1"}},
                                    {},
                                    ""});
  EXPECT_EQ(program.code, 0) << program.output;
  EXPECT_EQ(daemon.row_count(), 50u);
  EXPECT_EQ(daemon.error(), "");
}

}  // namespace
}  // namespace ranklog::testing
