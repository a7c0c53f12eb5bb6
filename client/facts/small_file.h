#ifndef CLIENT_FACTS_SMALL_FILE_H_
#define CLIENT_FACTS_SMALL_FILE_H_

#include <cstddef>
#include <optional>
#include <string>

namespace ranklog::internal {

// The first `most` bytes of a regular file or of a file in /proc. Nullopt if there is no such file, or
// it is of another kind, such as a pipe, whose reader could wait.
std::optional<std::string> ReadSmallFile(const std::string& path, size_t most);

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_SMALL_FILE_H_
