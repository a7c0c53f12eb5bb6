// How the daemon's log looks.

#ifndef SERVICE_DAEMON_LOG_FORMAT_H_
#define SERVICE_DAEMON_LOG_FORMAT_H_

#include <spdlog/spdlog.h>

namespace ranklog::daemon {

// Makes `sink` the log. A line that is said again and again within a minute is written once; the
// next other line is preceded by how often.
void LogTo(spdlog::sink_ptr sink);

// From now on each line of the log is an object: time (ISO 8601), level (debug, info, warning,
// error), pid, message.
void LogAsJson();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_LOG_FORMAT_H_
