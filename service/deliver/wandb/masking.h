// Removes a key from a server's answer. Answers are stored and shown, and some servers echo the
// request.

#ifndef SERVICE_DELIVER_WANDB_MASKING_H_
#define SERVICE_DELIVER_WANDB_MASKING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/transport.h"

namespace ranklog::deliver::wandb {

// Replaces the key in an answer, in plain form and in the encoded form in which it was sent.
inline void MaskKey(const std::string& key, absl::StatusOr<HttpResponse>* answer) {
  if (!answer->ok()) return;
  absl::StrReplaceAll({{key, "[key]"}, {absl::Base64Escape("api:" + key), "[key]"}},
                      &(*answer)->body);
}

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_MASKING_H_
