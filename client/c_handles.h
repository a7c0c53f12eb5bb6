// What the functions of ranklog/c.h on runs share.
//
// A ranklog_run is a RunState, a ranklog_key a std::string, a ranklog_row a RowShape, and a
// ranklog_upload a std::shared_ptr<Upload>: each function casts, stops exceptions, and calls the
// function that does the work.

#ifndef CLIENT_C_HANDLES_H_
#define CLIENT_C_HANDLES_H_

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "client/run/run_state.h"
#include "ranklog/c.h"

namespace ranklog::internal {

inline RunState* StateOf(ranklog_run* run) { return reinterpret_cast<RunState*>(run); }
inline const RunState* StateOf(const ranklog_run* run) {
  return reinterpret_cast<const RunState*>(run);
}

// Copies what fits, with a null at the end. Returns the size of all of `text`.
inline size_t CopyText(std::string_view text, char* buffer, size_t size) {
  if (buffer != nullptr && size > 0) {
    const size_t bytes = std::min(text.size(), size - 1);
    std::memcpy(buffer, text.data(), bytes);
    buffer[bytes] = '\0';
  }
  return text.size();
}

}  // namespace ranklog::internal

#endif  // CLIENT_C_HANDLES_H_
