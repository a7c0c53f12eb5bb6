// The free disk space for the store, and how long it will last.

#ifndef SERVICE_CLI_NODE_DISK_OUTLOOK_H_
#define SERVICE_CLI_NODE_DISK_OUTLOOK_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::cli {

struct DiskOutlook {
  int64_t bytes = 0;  // size of the store's file system; 0: unknown
  int64_t free_bytes = 0;
  double growth_per_second = 0;  // growth of the store's files; 0: no growth, or unknown
  // Time until the disk is full; nullopt: no growth, or more than a year.
  absl::optional<absl::Duration> lasts;

  bool full() const { return bytes > 0 && free_bytes <= 0; }
};

// Looks at the disk of `dir`. `growth_per_second` is the daemon's measurement, if there is one.
DiskOutlook CheckDisk(const std::string& dir, absl::optional<double> growth_per_second);

// "120.0 GiB free of 500.0 GiB, full in 3 d 04 h at 1.2 MiB/s".
std::string DiskText(const DiskOutlook& disk);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_NODE_DISK_OUTLOOK_H_
