// What a run's `.wandb` log holds, as far as its writer must know it: what describes the run, and how
// far each of its streams goes.

#ifndef SERVICE_DELIVER_OFFLINE_LOG_CONTENTS_H_
#define SERVICE_DELIVER_OFFLINE_LOG_CONTENTS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::deliver::offline {

// The Record.uuid of a record that is an element of a stream: its letter and its number there.
constexpr char kHistoryPlace = 'h', kEventPlace = 'e', kConsolePlace = 'c';
std::string PlaceText(char stream, int64_t number);

struct LogContents {
  // Takes a record in; the writer and the reader of the log call it with the same records.
  void Apply(const wandb_internal::Record& record);
  // Drops what the run's next log does not begin with: all but the description, the summary and the
  // places.
  void BeginLog();

  int64_t records = 0;
  wandb_internal::RunRecord run;                                // without config
  std::map<std::string, std::string> config;                    // JSON by key
  std::map<std::string, wandb_internal::MetricRecord> metrics;  // by name or glob
  wandb_internal::EnvironmentRecord environment;
  std::map<std::string, std::string> summary;  // JSON by key

  // The number that follows the last element; nullopt: there is none, and any may come.
  absl::optional<int64_t> next_history;
  absl::optional<int64_t> next_event;
  // The lines of the console that can still be changed, by number; at most kConsoleWindow of each
  // channel.
  struct ConsoleLine {
    int64_t number = 0;
    bool error = false;
    size_t width = 0;  // characters
  };
  static constexpr size_t kConsoleWindow = 32;  // the official client's terminal has so many lines
  std::deque<ConsoleLine> console;
  absl::optional<int64_t> next_console;
  bool has_output[2] = {false, false};  // by `error`: whether a line of the channel was written

  std::set<std::string> files;      // with a FilesRecord
  std::set<std::string> artifacts;  // client ids
  std::string last_alert;           // serialized; empty: the last record is none
  bool preempting = false;
  absl::optional<int32_t> exit_code;
};

}  // namespace ranklog::deliver::offline

#endif  // SERVICE_DELIVER_OFFLINE_LOG_CONTENTS_H_
