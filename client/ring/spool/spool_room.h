// The size of a ring when memory is scarce: only the rule, without the file system.
//
// All rings in a file system together take at most a quarter of what would be free without them.
// The /dev/shm of a container has 64 MiB, and other programs need it. The directory is not locked,
// because a stopped process would then block all others. Instead, a process checks the room, makes
// its ring, and checks again. If several processes make rings at once, the last one sees all rings.

#ifndef CLIENT_RING_SPOOL_SPOOL_ROOM_H_
#define CLIENT_RING_SPOOL_SPOOL_ROOM_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "ranklog/v1/ranklog.pb.h"

namespace ranklog::internal {

struct SpoolRoom {
  uint64_t share = UINT64_MAX;  // bytes for all rings together
  uint64_t used = 0;            // bytes of existing rings

  static SpoolRoom Of(uint64_t free, uint64_t used) { return {(free + used) / 4, used}; }
  // A lower bound: `taken` are the bytes of all files, rings and others.
  static SpoolRoom AtLeast(uint64_t free, uint64_t taken) { return {free / 4, taken}; }

  bool IsOverfull() const { return used > share; }
};

// Returns how large a new ring may be, at most `wanted` bytes, in whole pages; 0 if that is less
// than `least`. The first ring of each rank takes half of the rank's part; if the number of ranks
// is unknown, half of the remaining room. Every other ring takes an eighth of the remaining room.
size_t FittingBytes(const SpoolRoom& room, size_t wanted, size_t least,
                    const v1::Identity& identity);

// Shrinks an existing ring of `bytes` until its directory is not overfull. `look` returns the room,
// this ring included. `shrink` reduces the ring to fewer bytes, but at least `least`. Returns the
// final size; 0: the ring must leave the directory. After all rings that were made at once have
// settled, the directory is not overfull. They may get less than the room allows; possibly none of
// them can stay.
size_t SettledBytes(size_t bytes, size_t least, const std::function<SpoolRoom()>& look,
                    const std::function<bool(size_t)>& shrink);

// Rounds to whole pages.
size_t RoundUpToPages(size_t bytes);
size_t RoundDownToPages(size_t bytes);

}  // namespace ranklog::internal

#endif  // CLIENT_RING_SPOOL_SPOOL_ROOM_H_
