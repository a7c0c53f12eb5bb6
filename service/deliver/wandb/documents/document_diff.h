// Compares a run's config or summary at the server with the one that was sent.

#ifndef SERVICE_DELIVER_WANDB_DOCUMENTS_DOCUMENT_DIFF_H_
#define SERVICE_DELIVER_WANDB_DOCUMENTS_DOCUMENT_DIFF_H_

#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "service/deliver/read_back.h"

namespace ranklog::deliver::wandb {

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

#endif  // SERVICE_DELIVER_WANDB_DOCUMENTS_DOCUMENT_DIFF_H_
