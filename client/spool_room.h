// How large a ring may be where there is little room: the rule alone, without the file system.
//
// All rings in a file system together take at most a quarter of what would be free in it without
// them: a container's /dev/shm has 64 MiB, and others need it. Nobody locks the directory, since a
// process that is stopped would hold up the others. So a process looks, makes its ring, and looks
// again: the last of those that made theirs at once sees them all.

#ifndef CLIENT_SPOOL_ROOM_H_
#define CLIENT_SPOOL_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

struct SpoolRoom {
  uint64_t share = UINT64_MAX;  // bytes for all rings together
  uint64_t used = 0;            // bytes of those that are there

  static SpoolRoom Of(uint64_t free, uint64_t used) { return {(free + used) / 4, used}; }
  // Not more room than there is: `taken` are the bytes of all files, rings and others.
  static SpoolRoom AtLeast(uint64_t free, uint64_t taken) { return {free / 4, taken}; }

  bool IsOverfull() const { return used > share; }
};

// How much of `wanted` one more ring may have, in whole pages; 0: less than `least`. The first ring
// of each rank takes half of the rank's part, or, where nobody knows how many ranks there are, half
// of what is left; the others each an eighth of what is left.
size_t FittingBytes(const SpoolRoom& room, size_t wanted, size_t least,
                    const v1::Identity& identity);

// Makes a ring of `bytes`, which is there, smaller until its directory is not overfull. `look` sees
// the ring, too; `shrink` gives it fewer bytes, but `least`. Returns what it has then; 0: it is to
// leave. When all that were made at once have settled, the directory is not overfull. They may have
// got less than there is room for, down to leaving all.
size_t SettledBytes(size_t bytes, size_t least, const std::function<SpoolRoom()>& look,
                    const std::function<bool(size_t)>& shrink);

// Up to whole pages.
size_t RoundUpToPages(size_t bytes);
size_t RoundDownToPages(size_t bytes);

}  // namespace ranklog::internal

#endif  // CLIENT_SPOOL_ROOM_H_
