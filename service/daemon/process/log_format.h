// The format of the daemon's log.

#ifndef SERVICE_DAEMON_PROCESS_LOG_FORMAT_H_
#define SERVICE_DAEMON_PROCESS_LOG_FORMAT_H_

#include <spdlog/spdlog.h>

namespace ranklog::daemon {

// Sets `sink` as the target of the log. A line that is repeated within a minute is written once;
// the number of repetitions is logged before the next different line.
void LogTo(spdlog::sink_ptr sink);

// From now on, each log line is a JSON object: time (ISO 8601), level (debug, info, warning,
// error), pid, message.
void LogAsJson();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_LOG_FORMAT_H_
