#include "client/ring/spool/spool_room.h"

#include <unistd.h>

#include <algorithm>

namespace ranklog::internal {
namespace {

size_t PageBytes() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

size_t RoundUpToPages(size_t bytes) {
  return (bytes + PageBytes() - 1) / PageBytes() * PageBytes();
}

size_t RoundDownToPages(size_t bytes) { return bytes / PageBytes() * PageBytes(); }

size_t FittingBytes(const SpoolRoom& room, size_t wanted, size_t least,
                    const v1::Identity& identity) {
  const uint64_t left = room.share > room.used ? room.share - room.used : 0;
  uint64_t most = left / 8;
  if (identity.thread() == 0) {
    const uint32_t ranks = identity.local_world_size();
    most = ranks > 0 ? std::min(left, room.share / ranks / 2) : left / 2;
  }
  const size_t bytes = std::min(wanted, static_cast<size_t>(most) / PageBytes() * PageBytes());
  return bytes < least ? 0 : bytes;
}

size_t SettledBytes(size_t bytes, size_t least, const std::function<SpoolRoom()>& look,
                    const std::function<bool(size_t)>& shrink) {
  while (look().IsOverfull()) {
    bytes = RoundUpToPages(bytes / 2);
    if (bytes < least || !shrink(bytes)) return 0;
  }
  return bytes;
}

}  // namespace ranklog::internal
