// The rings in a spool directory, and whose they are to take.

#ifndef SERVICE_INGEST_LEFT_RINGS_H_
#define SERVICE_INGEST_LEFT_RINGS_H_

#include <string>
#include <vector>

#include "service/ingest/ring_reader.h"

namespace ranklog::ingest {

// The paths of all rings in `dir`, those of living ranks included. None where no rank of ours makes
// its spool, as others may write there.
std::vector<std::string> RingsIn(const std::string& dir);

// Whether a ring that never attached is for the daemon at this socket, by the address in its Hello.
// An empty path stands for any daemon.
bool IsForDaemonAt(const std::string& socket_path, const RingReader& ring);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_LEFT_RINGS_H_
