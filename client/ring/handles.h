// The keys behind MetricHandle and RowHandle, checked before the first row with them. One table for
// the process, so that a handle means the same in every run, every thread, and in a forked child.

#ifndef CLIENT_RING_HANDLES_H_
#define CLIENT_RING_HANDLES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "client/base/process.h"

namespace ranklog::internal {

struct RowShape {
  uint32_t index;                 // counts the row shapes of the process, from 0
  std::vector<std::string> keys;  // valid and distinct
  size_t given = 0;               // number of values that a caller gives
  // The position of each key's value among them; empty if the caller gives just these values.
  std::vector<size_t> positions{};
  size_t left_out = 0;  // number of given keys that are not valid
};

// The single copy of a valid key. The same key has the same address forever.
const std::string* InternKey(std::string_view key) ABSL_LOCKS_EXCLUDED(StateMutex());

// The row shape of these keys. The same keys return the same shape. If a key occurs twice, the last
// value counts.
std::shared_ptr<const RowShape> InternRow(std::span<const std::string_view> keys)
    ABSL_LOCKS_EXCLUDED(StateMutex());

}  // namespace ranklog::internal

#endif  // CLIENT_RING_HANDLES_H_
