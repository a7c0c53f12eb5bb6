// Lists the rings in a spool directory, and determines which daemon must read them.

#ifndef SERVICE_INGEST_ORPHANS_RING_SCAN_H_
#define SERVICE_INGEST_ORPHANS_RING_SCAN_H_

#include <string>
#include <vector>

#include "service/ingest/ring/spool_reader.h"

namespace ranklog::ingest {

// The paths of all rings in `dir`, including those of live ranks. Empty if `dir` is not a directory
// of this user that only this user may write: no rank of ours creates its spool there.
std::vector<std::string> RingsIn(const std::string& dir);

// Whether a ring that never attached is for the daemon at this socket, by the address in its Hello.
// An empty path matches every ring.
bool IsForDaemonAt(const std::string& socket_path, const SpoolReader& ring);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_RING_SCAN_H_
