#include "service/daemon/metrics/monitor.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include "absl/strings/str_cat.h"
#include "service/ingest/ring/content_dir.h"
#include "service/storage/database/store_file.h"

namespace ranklog::daemon {
namespace {

constexpr absl::Duration kBytesInterval = absl::Seconds(10);

int64_t StoreBytes(const std::string& state_dir) {
  int64_t bytes = 0;
  for (const char* suffix : {"", "-wal"}) {
    struct stat info {};
    const std::string path = absl::StrCat(state_dir, "/", storage::kStoreFile, suffix);
    if (stat(path.c_str(), &info) == 0) bytes += info.st_size;
  }
  return bytes;
}

}  // namespace

void Monitor::Sample(absl::Time steady_now, uint64_t rows) {
  View view;
  rows_.Add(steady_now, static_cast<double>(rows));
  view.rows_per_second = rows_.PerSecond().value_or(0);
  view.store_bytes = StoreBytes(state_dir_);
  if (steady_now >= next_bytes_) {
    next_bytes_ = steady_now + kBytesInterval;
    content_bytes_ = ingest::ContentDir::BytesIn(state_dir_);
    bytes_.Add(steady_now, static_cast<double>(view.store_bytes));
  }
  view.content_bytes = content_bytes_;
  view.growth_per_second = bytes_.PerSecond();
  struct statvfs disk {};
  if (statvfs(state_dir_.c_str(), &disk) == 0) {
    const auto block = static_cast<int64_t>(disk.f_frsize);
    view.disk_bytes = static_cast<int64_t>(disk.f_blocks) * block;
    view.disk_free_bytes = static_cast<int64_t>(disk.f_bavail) * block;
    view.disk_writable = (disk.f_flag & ST_RDONLY) == 0 && disk.f_bavail > 0;
  }
  absl::MutexLock lock(&mutex_);
  view_ = view;
}

Monitor::View Monitor::view() const {
  absl::MutexLock lock(&mutex_);
  return view_;
}

}  // namespace ranklog::daemon
