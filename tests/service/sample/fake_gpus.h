// Sets up the devices of tests/support/fake_nvml.cc.

#ifndef TESTS_SERVICE_SAMPLE_FAKE_GPUS_H_
#define TESTS_SERVICE_SAMPLE_FAKE_GPUS_H_

#include <stdlib.h>

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// One at a time, because the library finds it by a variable of the environment.
class FakeGpus {
 public:
  explicit FakeGpus(const std::string& setup) {
    Set(setup);
    setenv("FAKE_NVML_FILE", file_.c_str(), /*replace=*/1);
  }

  // Replaces the lines that fake_nvml.cc describes.
  void Set(const std::string& setup) const {
    const std::string next = dir_.File("next");
    std::ofstream(next) << setup << "\n";
    std::filesystem::rename(next, file_);  // at once: the library may be reading it
  }

  // The number of NVML's calls since the last Calls().
  size_t Calls() {
    std::error_code absent;
    const auto all = std::filesystem::file_size(file_ + ".calls", absent);
    const size_t calls = absent ? 0 : all - seen_;
    seen_ += calls;
    return calls;
  }

 private:
  TempDir dir_;
  const std::string file_ = dir_.File("setup");
  size_t seen_ = 0;
};

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_SAMPLE_FAKE_GPUS_H_
