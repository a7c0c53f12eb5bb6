// Keeps a key out of what a server says: that is stored and shown, and some servers say back what
// they were sent.

#ifndef SERVICE_DELIVER_WANDB_MASKING_H_
#define SERVICE_DELIVER_WANDB_MASKING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver::wandb {

// Replaces the key in an answer, in the clear and as it was sent.
inline void MaskKey(const std::string& key, absl::StatusOr<HttpResponse>* answer) {
  if (!answer->ok()) return;
  absl::StrReplaceAll({{key, "[key]"}, {absl::Base64Escape("api:" + key), "[key]"}},
                      &(*answer)->body);
}

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_MASKING_H_
