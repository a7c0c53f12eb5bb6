// What a program printed, line by line.

#ifndef SERVICE_MODEL_CONSOLE_LINE_H_
#define SERVICE_MODEL_CONSOLE_LINE_H_

#include <cstdint>
#include <string>

namespace ranklog::model {

// A line in an item. It replaces an earlier one of its stream with the same number: a program may
// write a line anew, such as a progress bar.
struct ConsoleLine {
  uint64_t number = 0;  // in its stream
  int64_t time_us = 0;  // Unix time of its first character
  bool error = false;   // to stderr
  std::string text{};   // UTF-8, without the end of the line

  friend bool operator==(const ConsoleLine&, const ConsoleLine&) = default;
};

// A line in the store. `line.number` counts the lines of its run and rank from 0, without gaps.
struct StoredConsoleLine {
  int64_t id = 0;  // larger than that of every earlier change of a line of the run
  ConsoleLine line{};

  friend bool operator==(const StoredConsoleLine&, const StoredConsoleLine&) = default;
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_CONSOLE_LINE_H_
