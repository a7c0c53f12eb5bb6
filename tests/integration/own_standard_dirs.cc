// Gives the test program its own standard directories, where the kernel allows it. Commands look for
// rings there, and would report those of other tests and jobs.

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "ranklog/v1/places.h"
#include "tests/support/own_mounts.h"

namespace ranklog::testing {
namespace {

class OwnStandardDirs : public ::testing::Environment {
 public:
  void SetUp() override {
    if (!HasOwnMounts()) return;
    for (const v1::PrivateDir& dir : v1::StandardDirs()) {
      if (dir.create) mkdir(dir.path.c_str(), 0700);
      mount("none", dir.path.c_str(), "tmpfs", 0, "mode=700");
    }
  }
};

const ::testing::Environment* const own_standard_dirs =
    ::testing::AddGlobalTestEnvironment(new OwnStandardDirs);

}  // namespace
}  // namespace ranklog::testing
