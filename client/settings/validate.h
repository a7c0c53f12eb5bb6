// Checks settings, and replaces invalid ones.

#ifndef CLIENT_SETTINGS_VALIDATE_H_
#define CLIENT_SETTINGS_VALIDATE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ranklog/settings.h"

namespace ranklog::internal {

// 1 to 128 characters of A-Z a-z 0-9 _ - . and not dots alone.
bool IsRunId(std::string_view text);

// What Settings::Validate() returns.
std::vector<std::string> Validate(const Settings& settings);

// `settings` with a usable replacement for each value that Validate() rejects. The result is the
// same on all ranks of a job, so that the rows are kept. A tracker's key and address stay
// unchanged: the run goes to that tracker, and waits until the user corrects them.
Settings Repair(Settings settings);

// Returns why a text cannot be sent. Append it to the text's name: " is not UTF-8", " contains a
// zero byte" or " is longer than 256 bytes". Empty if it can be sent.
std::string TextError(std::string_view text, size_t max_bytes);

// The errors of Validate() about the rank and the world size.
std::vector<std::string> RankErrors(const Settings& settings);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_VALIDATE_H_
