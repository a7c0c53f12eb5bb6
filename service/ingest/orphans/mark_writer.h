// Writes how far a ring is stored into its header: see v1::StoredMark.

#ifndef SERVICE_INGEST_ORPHANS_MARK_WRITER_H_
#define SERVICE_INGEST_ORPHANS_MARK_WRITER_H_

#include <cstddef>
#include <cstdint>

#include "service/base/unique_fd.h"
#include "service/ingest/ring/ring_file.h"

namespace ranklog::ingest {

class MarkWriter {
 public:
  // The ring's descriptor may be for reading only.
  explicit MarkWriter(const RingFile& file);
  bool valid() const { return fd_.valid(); }
  bool Write(uint64_t end, uint64_t rows, uint64_t items);

 private:
  bool WriteAt(size_t offset, const void* bytes, size_t size);

  UniqueFd fd_;
  uint32_t current_ = 0;
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_ORPHANS_MARK_WRITER_H_
