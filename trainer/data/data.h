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
  std::string source;  // a description of the source, for messages
  Tokens train;
  Tokens validation;
  int64_t vocabulary = 256;  // tokens are 0 to vocabulary - 1
};

struct DataOptions {
  // A text, see FindText(); a file of GPT-2 tokens whose name ends in ".bin", see OpenTokenFile();
  // or a directory with two such files, train.bin and val.bin.
  std::string data = "builtin";
  Tokenizer tokenizer = {};    // of a text
  std::string cache_dir = {};  // of its tokens; empty: DefaultCacheDir()
  size_t seq_len = 128;        // tokens per sequence
  size_t min_windows = 1;      // least number of sequences to train on
};

// Whether `data` names a file of tokens, which needs no tokenizer.
bool IsTokenData(const std::string& data);

// Checks that the data exists. Cheap, so that a wrong path is reported before ranks start. Errors:
// those of FindText() and OpenTokenFile().
absl::Status CheckData(const std::string& data);

// Loads the data, as rank 0 or alone. Tokens of a file "...train.bin" are validated on
// "...val.bin" beside it. For other data, the last 5 % (at least one sequence) are for validation.
//   kNotFound             a file does not exist, or may not be read
//   kInvalidArgument      it is too short, or contains tokens that GPT-2 does not have
//   kDataLoss             a file cannot be read to its end, or is damaged
//   kFailedPrecondition   this build has no BPE, or the cache cannot be written
absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, DataProgress& progress);

// The same as a rank of `group`, by the group's store. Rank 0 makes the tokens first; then the
// other ranks read them from the cache. If a node does not share rank 0's files, its ranks make
// their own tokens. Call it once on every rank. Throws what LibTorch throws if rank 0 dies.
//   kAborted              rank 0 could not load it; the message contains the reason
//   kFailedPrecondition   the data of this rank differs from that of rank 0
absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, ProcessGroup& group,
                                  DataProgress& progress);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_DATA_H_
