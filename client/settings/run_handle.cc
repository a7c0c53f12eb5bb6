#include "client/settings/run_handle.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "client/base/text/short_name.h"
#include "client/settings/validate.h"

namespace ranklog::internal {
namespace {

constexpr std::string_view kHandleVersion = "rl1.";

bool IsUsable(const v1::RunHandle& handle) {
  const v1::Hello& hello = handle.hello();
  const uint32_t world_size = hello.identity().world_size();
  return !hello.stream().project().empty() && IsRunId(hello.stream().job_id()) &&
         hello.stream().rank() < world_size && world_size <= INT32_MAX &&
         hello.identity().local_rank() < world_size && hello.identity().node_rank() < world_size &&
         hello.identity().local_world_size() <= world_size && !hello.launch().process().empty();
}

}  // namespace

std::string EncodeHandle(const v1::RunHandle& handle) {
  const std::string content = absl::WebSafeBase64Escape(handle.SerializeAsString());
  return absl::StrCat(absl::string_view(kHandleVersion.data(), kHandleVersion.size()), content, ".",
                      HashName(content));
}

absl::StatusOr<v1::RunHandle> DecodeHandle(std::string_view text) {
  const absl::Status wrong = absl::InvalidArgumentError(
      "handle (RANKLOG_HANDLE) is not what Run::Handle() returned, or only a part of it; "
      "Init() makes a run of its own");
  if (text.substr(0, kHandleVersion.size()) != kHandleVersion) return wrong;
  text.remove_prefix(kHandleVersion.size());
  const size_t dot = text.find('.');
  if (dot == std::string_view::npos) return wrong;
  const std::string_view content = text.substr(0, dot);
  std::string bytes;
  v1::RunHandle handle;
  if (text.substr(dot + 1) != HashName(content) ||
      !absl::WebSafeBase64Unescape(absl::string_view(content.data(), content.size()), &bytes) ||
      !handle.ParseFromString(bytes) || !IsUsable(handle)) {
    return wrong;
  }
  return handle;
}

}  // namespace ranklog::internal
