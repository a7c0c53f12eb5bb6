#ifndef TESTS_SUPPORT_WITHOUT_DAEMON_H_
#define TESTS_SUPPORT_WITHOUT_DAEMON_H_

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

// The environment of a rank that finds no daemon, starts none, and waits for none: its rows stay in
// the spool. Its spool and its caches are in `dir`.
inline ChildProcess::Options WithoutDaemon(const TempDir& dir) {
  ChildProcess::Options options;
  options.environment = {{"RANKLOG_START_DAEMON", "false"},
                         {"RANKLOG_ADDRESS", "unix:" + dir.File("none.sock")},
                         {"RANKLOG_SPOOL_DIR", dir.path()},
                         {"RANKLOG_FINISH_TIMEOUT_MS", "0"},
                         {"XDG_CACHE_HOME", dir.File("cache")}};
  return options;
}

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_WITHOUT_DAEMON_H_
