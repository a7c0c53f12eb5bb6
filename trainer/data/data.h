#ifndef TRAINER_DATA_DATA_H_
#define TRAINER_DATA_DATA_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "trainer/data/data_progress.h"
#include "trainer/data/tokenizer.h"
#include "trainer/data/tokens.h"

namespace ranklog::trainer {

class ProcessGroup;

// The training data and the validation data.
struct Corpus {
  std::string source;  // where it was read from, for people
  Tokens train;
  Tokens validation;
  int64_t vocabulary = 256;  // tokens are 0 to vocabulary - 1
};

struct DataOptions {
  // A text, see FindText(); tokens of GPT-2, see OpenTokenFile(), in a file whose name ends in
  // ".bin"; or a directory with two of these, train.bin and val.bin.
  std::string data = "builtin";
  Tokenizer tokenizer = {};    // of a text
  std::string cache_dir = {};  // of its tokens; empty: DefaultCacheDir()
  size_t seq_len = 128;        // tokens of a sequence
  size_t min_windows = 1;      // fewest sequences to train on
};

// Whether `data` names a file of tokens, which needs no tokenizer.
bool IsTokenData(const std::string& data);

// Checks that the data exists. Cheap, so that a wrong path is reported before ranks start. The
// errors of FindText() and OpenTokenFile().
absl::Status CheckData(const std::string& data);

// Loads the data, as rank 0 or alone. Tokens of a file "...train.bin" are validated on
// "...val.bin" beside it. Of other data, the last 5 % are for validation, at least one sequence.
//   kNotFound             a file does not exist, or may not be read
//   kInvalidArgument      it is too short, or holds tokens that GPT-2 does not have
//   kDataLoss             a file cannot be read to its end, or is damaged
//   kFailedPrecondition   this build has no BPE, or the cache cannot be written
absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, DataProgress& progress);

// The same as a rank of `group`, by the group's store: rank 0 first, which makes the tokens, then
// the others, which find them in the cache. Where a node does not share rank 0's files, its ranks
// make their own. Call it once on every rank. Throws what LibTorch throws if rank 0 dies.
//   kAborted              rank 0 could not load it; the message gives the reason
//   kFailedPrecondition   the data of this rank is not that of rank 0
absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, ProcessGroup& group,
                                  DataProgress& progress);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_DATA_H_
