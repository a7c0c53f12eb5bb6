// How much room the store has left, and for how long.

#ifndef SERVICE_CLI_DISK_OUTLOOK_H_
#define SERVICE_CLI_DISK_OUTLOOK_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "absl/types/optional.h"

namespace ranklog::cli {

struct DiskOutlook {
  int64_t bytes = 0;  // of the store's file system; 0: it cannot be asked
  int64_t free_bytes = 0;
  double growth_per_second = 0;          // of the store's files; 0: they do not grow, or unknown
  absl::optional<absl::Duration> lasts;  // until it is full at this rate; none: longer than years

  bool full() const { return bytes > 0 && free_bytes <= 0; }
};

// Of the disk below `dir`. `growth_per_second`: what the daemon has seen, if it has.
DiskOutlook LookAtDisk(const std::string& dir, absl::optional<double> growth_per_second);

// "120.0 GiB free of 500.0 GiB, full in 3 d 04 h at 1.2 MiB/s".
std::string DiskText(const DiskOutlook& disk);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_DISK_OUTLOOK_H_
