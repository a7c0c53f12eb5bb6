// The text of Run::Handle(): a v1::RunHandle that survives an argument and a variable.
//
//   rl1.CONTENT.CHECK   CONTENT is the message in the URL-safe Base64; CHECK is HashName(CONTENT)

#ifndef CLIENT_SETTINGS_RUN_HANDLE_H_
#define CLIENT_SETTINGS_RUN_HANDLE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

std::string EncodeHandle(const v1::RunHandle& handle);

//   kInvalidArgument   EncodeHandle() did not make this text, or a part of it is missing
absl::StatusOr<v1::RunHandle> DecodeHandle(std::string_view text);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_RUN_HANDLE_H_
