#ifndef TRAINER_DATA_TOKEN_FILE_H_
#define TRAINER_DATA_TOKEN_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/tokens.h"

namespace ranklog::trainer {

// Files of 16-bit tokens: nanoGPT's, without a header, and llm.c's, with one. data.md describes
// both.

// The tokens of the file at `path`, memory-mapped. A file that begins with llm.c's magic number
// must have the whole header; any other file is read as nanoGPT's.
//   kNotFound           the file does not exist, or may not be read
//   kInvalidArgument    it is empty, or has an unsupported version
//   kDataLoss           it is damaged: its length does not match its header
absl::StatusOr<Tokens> OpenTokenFile(const std::string& path);

// kInvalidArgument: a token of the file at `path` is not below `vocabulary`. Reads all `tokens`.
absl::Status CheckVocabulary(const Tokens& tokens, int64_t vocabulary, const std::string& path);

// Writes an llm.c header at the start of a file whose tokens begin at kTokenFileHeader.
//   kOutOfRange     it has more tokens than the header can count, 2^31 - 1
//   kUnavailable    it cannot be written
absl::Status WriteTokenFileHeader(const std::string& path);
inline constexpr size_t kTokenFileHeader = 1024;  // bytes

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_TOKEN_FILE_H_
