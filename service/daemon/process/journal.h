// Log output for systemd's journal.

#ifndef SERVICE_DAEMON_PROCESS_JOURNAL_H_
#define SERVICE_DAEMON_PROCESS_JOURNAL_H_

namespace ranklog::daemon {

// Whether output to this descriptor goes to the journal, by $JOURNAL_STREAM. Not thread-safe,
// because getenv is not.
bool GoesToJournal(int fd);

// From now on, each log line begins with its priority ("<4>"), for `journalctl -p`. It has no time,
// because the journal adds one.
void LogForJournal();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_PROCESS_JOURNAL_H_
