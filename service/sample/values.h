#ifndef SERVICE_SAMPLE_VALUES_H_
#define SERVICE_SAMPLE_VALUES_H_

#include <string>
#include <utility>
#include <vector>

namespace ranklog::sample {

// A sample. Names and units are those of W&B's SDK, without its prefix "system.". README.md lists
// them.
using Values = std::vector<std::pair<std::string, double>>;

}  // namespace ranklog::sample

#endif  // SERVICE_SAMPLE_VALUES_H_
