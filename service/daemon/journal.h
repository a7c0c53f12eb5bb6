// Logs as systemd's journal takes them.

#ifndef SERVICE_DAEMON_JOURNAL_H_
#define SERVICE_DAEMON_JOURNAL_H_

namespace ranklog::daemon {

// Whether what is written to this descriptor goes to the journal, by $JOURNAL_STREAM. Not
// thread-safe, as getenv is not.
bool GoesToJournal(int fd);

// From now on each line of the log begins with its priority ("<4>"), for `journalctl -p`, and has
// no time, which the journal adds.
void LogForJournal();

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_JOURNAL_H_
