#ifndef TRAINER_DATA_H_
#define TRAINER_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ranklog::trainer {

// A text as bytes, each a token of 0 to 255. Its tail is held out for validation.
struct Corpus {
  std::string source;  // where it was read from, for people
  std::vector<uint8_t> train;
  std::vector<uint8_t> validation;
  int64_t vocabulary = 256;  // tokens are 0 to vocabulary - 1
};

// How many sequences of `seq_len` tokens, with a next token each, lie side by side in `bytes`.
size_t WindowCount(const std::vector<uint8_t>& bytes, size_t seq_len);

// Reads `data`, a plain or gzipped file; "builtin" is the text of Debian's jargon-text, or the
// licences in /usr/share/common-licenses where that is not installed.
//   kNotFound         there is no such file
//   kInvalidArgument  it is shorter than `min_windows` sequences of `seq_len`, plus what is held
//   out kDataLoss         it cannot be read to its end
absl::StatusOr<Corpus> LoadCorpus(const std::string& data, size_t seq_len, size_t min_windows);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_H_
