#ifndef TRAINER_DATA_TOKENIZER_H_
#define TRAINER_DATA_TOKENIZER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/data_progress.h"

namespace ranklog::trainer {

// A tokenizer: one token per byte, or SentencePiece BPE trained on the text.
struct Tokenizer {
  int64_t pieces = 0;  // of the BPE; 0: bytes

  // "bytes", or "bpe:N" with N pieces, 258 to 65536.
  //   kInvalidArgument   anything else
  static absl::StatusOr<Tokenizer> Parse(const std::string& text);

  std::string name() const;
  int64_t vocabulary() const { return pieces == 0 ? 256 : pieces; }
};

// Trains BPE on the plain text in the file `path`; messages call it `name`. Writes the model, in
// SentencePiece's format, to the file `model`. Writes the tokens to the file `tokens`, from byte
// kTokenFileHeader. Takes about a second for 2 MB.
//   kFailedPrecondition   this build has no BPE
//   kInvalidArgument      BPE cannot be trained on the text: it is too short for so many pieces
//   kUnavailable          the program that trains it cannot be started
absl::Status WriteBpeTokens(const std::string& path, const std::string& name,
                            const Tokenizer& tokenizer, const std::string& model,
                            const std::string& tokens, DataProgress& progress);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_TOKENIZER_H_
