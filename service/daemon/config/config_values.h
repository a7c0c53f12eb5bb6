// The values of ranklogd's settings: how they are written, and what is wrong with one. For config.cc
// only; includes CLI11.

#ifndef SERVICE_DAEMON_CONFIG_CONFIG_VALUES_H_
#define SERVICE_DAEMON_CONFIG_CONFIG_VALUES_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace ranklog::daemon {

inline constexpr char kUnix[] = "unix:";
inline constexpr char kNone[] = "none";  // --peer-listen, --peer-key
inline constexpr char kEmptyValue[] = "its value is empty; give one, or leave the setting out";

// The values of an option for a duration.
struct DurationRange {
  absl::Duration least = absl::ZeroDuration();
  absl::Duration most = absl::InfiniteDuration();  // exclusive if infinite
  const char* infinite = nullptr;                  // the word for no limit; null: there is none
};

// Adds an option for a duration. Its default is `*value`.
CLI::Option* AddDuration(CLI::App& app, const char* flag, absl::Duration* value,
                         const DurationRange& range, const char* help);
// Adds an option for a size, or "unlimited". Its default is `*bytes`, which is a number of GiB.
CLI::Option* AddBytes(CLI::App& app, const char* flag, int64_t* bytes, const char* help);

// Paths are made absolute because the daemon may change its working directory.
std::string Absolute(const std::string& path);

CLI::Validator NotEmpty();
// The file decides where to listen and what to keep, so no other user may have written it. A pipe
// of this user, as the shell makes of <(...), is accepted.
CLI::Validator OwnFile();
CLI::Validator UnixAddress();
CLI::Validator PeerListenAddress();
CLI::Validator PeerAddress();
// A rank that starts a daemon may have a variable that is right only on another node. That daemon
// serves without other nodes, and reports why.
CLI::Validator PresentKeyFile();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_CONFIG_VALUES_H_
