// Removes a key from a server's answer. Answers are stored and shown, and some servers echo the
// request.

#ifndef SERVICE_DELIVER_MASKING_H_
#define SERVICE_DELIVER_MASKING_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "service/deliver/credentials.h"
#include "service/deliver/http/transport.h"

namespace ranklog::deliver {

// Replaces the secret in the body of an answer, in plain form and as basic authentication encodes
// it.
inline void MaskKey(const Credential& key, const HttpRequest& request,
                    absl::StatusOr<HttpResponse>* answer) {
  if (!answer->ok() || key.secret.empty()) return;
  const std::string sent = absl::StrCat(request.basic_user, ":", request.basic_password);
  absl::StrReplaceAll({{key.secret, "[key]"}, {absl::Base64Escape(sent), "[key]"}},
                      &(*answer)->body);
}

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_MASKING_H_
