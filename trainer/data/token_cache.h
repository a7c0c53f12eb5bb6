#ifndef TRAINER_DATA_TOKEN_CACHE_H_
#define TRAINER_DATA_TOKEN_CACHE_H_

#include <string>

#include "absl/status/statusor.h"
#include "trainer/data/data_progress.h"
#include "trainer/data/text.h"
#include "trainer/data/tokenizer.h"
#include "trainer/data/tokens.h"

namespace ranklog::trainer {

// The cache of tokens: a directory of files, named after their text and BPE. data.md describes it.

// The directory `ranklog` in $XDG_CACHE_HOME, or in ~/.cache. White space around the variables is
// removed, as around Ranklog's settings.
//   kFailedPrecondition   neither XDG_CACHE_HOME nor HOME is an absolute path
absl::StatusOr<std::string> DefaultCacheDir();

// The name of the file with this text's tokens. Reads the whole text.
//   kDataLoss             a file of the text cannot be read to its end
absl::StatusOr<std::string> TokenFileName(const Text& text, const Tokenizer& tokenizer);

// The tokens in the file `name` of `dir`. If the file is missing or damaged, one process at a time
// makes it; others wait. Errors: those of WriteBpeTokens(), and
//   kFailedPrecondition   `dir` cannot be created, locked or written
absl::StatusOr<Tokens> OpenOrMakeTokens(const std::string& dir, const std::string& name,
                                        const Text& text, const Tokenizer& tokenizer,
                                        DataProgress& progress);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_TOKEN_CACHE_H_
