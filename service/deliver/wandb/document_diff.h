// Compares a run's config or summary at the server with the one that was sent.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_
#define SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

struct DocumentDiff {
  static constexpr size_t kKept = 20;  // limit for `problems`; the counts include all

  bool compared = false;
  uint64_t matching = 0;              // keys with the same value
  uint64_t missing = 0;               // keys that are not at the server
  uint64_t differing = 0;             // keys with another value
  uint64_t unexpected = 0;            // keys at the server that were not sent
  std::vector<std::string> problems;  // each names its key

  uint64_t keys() const { return matching + missing + differing; }  // keys that were sent
  bool ok() const { return missing == 0 && differing == 0 && unexpected == 0; }
};

struct DocumentOptions {
  bool wrapped = false;  // each value is the member "value" of an object, as in a config
  bool shared = false;   // the run existed before our delivery; unexpected keys belong to others
  std::set<std::string> free;  // keys that are not compared
};

// Compares keys and values of two JSON objects, given as text. Servers change _step, _timestamp,
// _runtime and _wandb, and may add other keys with a leading underscore.
DocumentDiff CompareDocuments(absl::string_view want, absl::string_view got,
                              const DocumentOptions& options);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_DOCUMENT_DIFF_H_
