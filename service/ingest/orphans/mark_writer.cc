#include "service/ingest/orphans/mark_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::ingest {

MarkWriter::MarkWriter(const RingFile& file)
    : fd_(open(absl::StrCat("/proc/self/fd/", file.fd()).c_str(), O_RDWR | O_CLOEXEC)) {
  const bool read = pread(fd_.get(), &current_, sizeof current_,
                          offsetof(v1::SpoolHeader, stored)) == sizeof current_;
  current_ = read ? current_ & 1 : 0;
}

bool MarkWriter::Write(uint64_t end, uint64_t rows, uint64_t items) {
  const uint64_t mark[] = {end, rows, items};
  static_assert(sizeof mark == sizeof(v1::StoredMark));
  current_ ^= 1;
  return WriteAt(offsetof(v1::SpoolHeader, stored_marks) + current_ * sizeof mark, mark,
                 sizeof mark) &&
         WriteAt(offsetof(v1::SpoolHeader, stored), &current_, sizeof current_);
}

bool MarkWriter::WriteAt(size_t offset, const void* bytes, size_t size) {
  return pwrite(fd_.get(), bytes, size, static_cast<off_t>(offset)) == static_cast<ssize_t>(size);
}

}  // namespace ranklog::ingest
