// Holds a run's config or summary as a server hands it out against what it was sent.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_
#define SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

struct DocumentDiff {
  static constexpr size_t kKept = 20;  // of problems; the counts are of all

  bool compared = false;
  uint64_t there = 0;                 // keys that are there and the same
  uint64_t missing = 0;               // keys that are not there
  uint64_t differing = 0;             // keys with another value
  uint64_t unexpected = 0;            // keys that were not sent
  std::vector<std::string> problems;  // each names its key

  uint64_t keys() const { return there + missing + differing; }  // that were sent
  bool ok() const { return missing == 0 && differing == 0 && unexpected == 0; }
};

struct DocumentOptions {
  bool wrapped = false;        // each value is a member "value" of an object, as in a config
  bool shared = false;         // the run was there before ours: what is unexpected is theirs
  std::set<std::string> free;  // keys that may be there with any value, or not
};

// By key and value, both JSON objects as text. Keys with a leading underscore are not compared:
// servers add and change such.
DocumentDiff CompareDocuments(absl::string_view want, absl::string_view got,
                              const DocumentOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_
