#include "client/launch/join.h"

#include <utility>

#include "client/launch/launch.h"
#include "client/settings/run_handle.h"

namespace ranklog::internal {

v1::RunHandle MakeHandle(const v1::Hello& hello) {
  v1::RunHandle handle;
  v1::Hello& made = *handle.mutable_hello();
  *made.mutable_stream() = hello.stream();
  made.mutable_stream()->clear_incarnation();
  *made.mutable_settings() = hello.settings();
  // The daemon has these from the maker.
  made.mutable_settings()->clear_notes();
  made.mutable_settings()->clear_tags();
  made.mutable_settings()->clear_job_type();
  made.mutable_settings()->clear_host();
  made.mutable_settings()->clear_program();
  *made.mutable_identity() = hello.identity();
  made.mutable_identity()->clear_pid();
  made.mutable_identity()->clear_thread();
  made.mutable_identity()->clear_client_version();
  *made.mutable_launch() = hello.launch();
  return handle;
}

absl::StatusOr<v1::RunHandle> UseHandle(const std::string& text) {
  absl::StatusOr<v1::RunHandle> handle = DecodeHandle(text);
  if (handle.ok() && handle->hello().identity().boot_id() != BootId()) {
    return absl::FailedPreconditionError(
        "handle (RANKLOG_HANDLE) comes from another node, or from before a reboot; use it on the "
        "node of its process; Init() makes a run of its own");
  }
  return handle;
}

Settings JoinSettings(const v1::RunHandle& handle, Settings own) {
  const v1::Hello& hello = handle.hello();
  own.project = hello.stream().project();
  own.run_id = hello.stream().job_id();
  own.rank = static_cast<int>(hello.stream().rank());
  const v1::RunSettings& run = hello.settings();
  own.entity = run.entity();
  own.name = run.name();
  own.group = run.group();
  own.resume = run.resume();
  own.run_name_pattern = run.name_pattern();
  own.metadata = !run.no_metadata();
  own.system_metrics = !run.no_system_metrics();
  if (run.strategy() != v1::LOG_STRATEGY_UNSPECIFIED) {
    own.log_strategy = static_cast<LogStrategy>(run.strategy() - 1);
  }
  own.destinations.clear();
  for (const v1::Destination& destination : run.destinations()) {
    if (destination.chosen()) own.destinations.push_back(destination.kind());
  }
  const v1::Identity& identity = hello.identity();
  own.local_rank = static_cast<int>(identity.local_rank());
  own.world_size = static_cast<int>(identity.world_size());
  own.local_world_size.reset();
  if (identity.local_world_size() > 0) {
    own.local_world_size = static_cast<int>(identity.local_world_size());
  }
  own.node_rank = static_cast<int>(identity.node_rank());
  own.node = identity.node();
  return own;
}

void JoinHello(const v1::RunHandle& handle, v1::Hello* hello) {
  const std::string version = hello->identity().client_version();
  *hello->mutable_stream() = handle.hello().stream();
  *hello->mutable_settings() = handle.hello().settings();
  *hello->mutable_identity() = handle.hello().identity();
  hello->mutable_identity()->set_client_version(version);
  *hello->mutable_launch() = handle.hello().launch();
  hello->set_attached(true);
  hello->set_no_rows(handle.no_rows());
}

}  // namespace ranklog::internal
