// A sample of a node's system metrics, for one run.

#ifndef SERVICE_MODEL_SAMPLE_H_
#define SERVICE_MODEL_SAMPLE_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ranklog::model {

struct Sample {
  uint64_t number = 0;  // 0 for the run's first sample, no gaps
  int64_t time_us = 0;  // Unix time
  // Such as {"cpu", 12.5}: names and units as in W&B's package, without its prefix "system.".
  std::vector<std::pair<std::string, double>> values;

  friend bool operator==(const Sample&, const Sample&) = default;
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_SAMPLE_H_
