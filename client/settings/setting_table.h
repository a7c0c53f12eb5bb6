// One description of each setting that is a text, a number or a flag. FromEnvironment(), Validate()
// and Repair() follow it, and a test compares the public header and settings.md to it.
//
// These have code of their own instead:
//   rank to node_rank                 from a launcher (environment.h), and checked together
//   log_strategy, tags, destinations  an enum and lists
//   rank_statistics                   a small language (rank_statistics.h)
//   destination_settings, credentials  the destinations' variables (destination_variables.h)
//   delivery_timeout                  its variable, RANKLOG_FINISH; its limits are here
//   run_id, address, handle           their form (validate.cc); their variables are here
//   on_message                        set by the program only
//
// A new setting has its member in ranklog/settings.h, and its rows here and in settings.md. If it
// goes to the daemon, proto/README.md lists the other places. Defaults that Init() determines are
// in launch/resolve.cc.

#ifndef CLIENT_SETTINGS_SETTING_TABLE_H_
#define CLIENT_SETTINGS_SETTING_TABLE_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "absl/types/span.h"
#include "ranklog/settings.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::internal {

// A value of max_bytes: the bytes are not checked here. The text is not sent, or it must be one of
// `choices`, a run id or an address.
inline constexpr size_t kNoTextLimit = 0;

struct TextSetting {
  std::string Settings::*member;
  const char* name;
  const char* variables[2];  // the first one that is set counts; the second may be null
  // A text that is sent must be UTF-8 without zero bytes, and at most this long. This keeps the
  // Hello well below its space in the ring. A longer text is cut, and '?' replaces each invalid
  // byte.
  size_t max_bytes = kNoTextLimit;
  absl::Span<const char* const> choices{};  // valid values, if not empty; others count as unset
  const char* refused = "";                 // characters that trackers refuse; '-' replaces each
};

inline constexpr const char* kResumes[] = {"allow", "must", "never", "auto"};

inline constexpr TextSetting kTextSettings[] = {
    {&Settings::project, "project", {"RANKLOG_PROJECT", "WANDB_PROJECT"}, 128, {}, "/\\#?%:"},
    {&Settings::entity, "entity", {"RANKLOG_ENTITY", "WANDB_ENTITY"}, 1024},
    {&Settings::run_id, "run_id", {"RANKLOG_RUN_ID", "WANDB_RUN_ID"}},  // IsRunId()
    {&Settings::handle, "handle", {"RANKLOG_HANDLE"}},                  // HandleError()
    {&Settings::name, "name", {"RANKLOG_NAME", "WANDB_NAME"}, 1024},
    {&Settings::group, "group", {"RANKLOG_RUN_GROUP", "WANDB_RUN_GROUP"}, 1024},
    {&Settings::job_type, "job_type", {"RANKLOG_JOB_TYPE", "WANDB_JOB_TYPE"}, 1024},
    {&Settings::notes, "notes", {"RANKLOG_NOTES", "WANDB_NOTES"}, 16 << 10},
    {&Settings::resume, "resume", {"RANKLOG_RESUME", "WANDB_RESUME"}, kNoTextLimit, kResumes},
    {&Settings::program, "program", {"RANKLOG_PROGRAM", "WANDB_PROGRAM"}, 4096},
    {&Settings::run_name_pattern, "run_name_pattern", {"RANKLOG_RUN_NAME_PATTERN"}, 1024},
    {&Settings::host, "host", {"RANKLOG_HOST", "WANDB_HOST"}, 1024},
    {&Settings::node, "node", {"RANKLOG_NODE", "SLURMD_NODENAME"}, 1024},
    {&Settings::address, "address", {"RANKLOG_ADDRESS"}},  // AddressError()
    {&Settings::state_dir, "state_dir", {"RANKLOG_STATE_DIR"}},
    {&Settings::spool_dir, "spool_dir", {"RANKLOG_SPOOL_DIR"}},
    {&Settings::daemon, "daemon", {"RANKLOG_DAEMON"}},
};

// `T` is size_t or std::chrono::milliseconds.
template <typename T>
struct NumberSetting {
  T Settings::*member;
  const char* name;      // with its unit
  const char* variable;  // null: it has none of its own
  const char* what;      // what the variable must hold
  T least, most;         // a value outside becomes the nearer limit
};

// Calls visit(number) with each NumberSetting<T>.
template <typename Visit>
void ForEachNumberSetting(const Visit& visit) {
  using Millis = std::chrono::milliseconds;
  constexpr char kMillis[] = "a whole number of milliseconds";
  visit(NumberSetting<size_t>{&Settings::spool_bytes, "spool_bytes", "RANKLOG_SPOOL_BYTES",
                              "a number of bytes", v1::kMinRingBytes, v1::kMaxRingBytes});
  visit(NumberSetting<Millis>{&Settings::flush_interval, "flush_interval in ms",
                              "RANKLOG_FLUSH_INTERVAL_MS", kMillis, Millis(1), Millis(60000)});
  visit(NumberSetting<Millis>{&Settings::finish_timeout, "finish_timeout in ms",
                              "RANKLOG_FINISH_TIMEOUT_MS", kMillis, Millis(0), Millis(3600000)});
  visit(NumberSetting<Millis>{&Settings::delivery_timeout, "delivery_timeout in ms", nullptr,
                              kMillis, Millis(0), std::chrono::hours(24)});
}

// The number in the unit of its name.
inline std::string TextOf(size_t bytes) { return std::to_string(bytes); }
inline std::string TextOf(std::chrono::milliseconds time) { return std::to_string(time.count()); }

struct FlagSetting {
  bool Settings::*member;
  const char* name;
  const char* variables[2];  // 1 or 0, or a word such as yes or off; the second may be null
};

inline constexpr FlagSetting kFlagSettings[] = {
    {&Settings::disabled, "disabled", {"WANDB_DISABLED"}},  // and by WANDB_MODE=disabled
    {&Settings::start_daemon, "start_daemon", {"RANKLOG_START_DAEMON"}},
    // W&B's variables that switch these two off are kDisablingVariables.
    {&Settings::metadata, "metadata", {"RANKLOG_METADATA"}},
    {&Settings::system_metrics, "system_metrics", {"RANKLOG_SYSTEM_METRICS"}},
    {&Settings::quiet, "quiet", {"RANKLOG_QUIET", "WANDB_SILENT"}},
};

// Variables of W&B that switch a flag off if they are true. The flag's own variable counts first.
struct DisablingVariable {
  const char* name;
  bool Settings::*member;
};

inline constexpr DisablingVariable kDisablingVariables[] = {
    {"WANDB__DISABLE_META", &Settings::metadata},
    {"WANDB_X_DISABLE_META", &Settings::metadata},
    {"WANDB__DISABLE_MACHINE_INFO", &Settings::metadata},
    {"WANDB_X_DISABLE_MACHINE_INFO", &Settings::metadata},
    {"WANDB__DISABLE_MACHINE_INFO", &Settings::system_metrics},
    {"WANDB_X_DISABLE_MACHINE_INFO", &Settings::system_metrics},
    {"WANDB__DISABLE_STATS", &Settings::system_metrics},
    {"WANDB_X_DISABLE_STATS", &Settings::system_metrics},
};

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_SETTING_TABLE_H_
