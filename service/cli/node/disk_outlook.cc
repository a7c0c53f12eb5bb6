#include "service/cli/node/disk_outlook.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/base/text/number_text.h"

namespace ranklog::cli {
namespace {

constexpr absl::Duration kVeryLong = absl::Hours(24 * 365);

}  // namespace

DiskOutlook CheckDisk(const std::string& dir, absl::optional<double> growth_per_second) {
  DiskOutlook disk;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(dir, error);
  if (error) return disk;
  disk.bytes = static_cast<int64_t>(space.capacity);
  disk.free_bytes = static_cast<int64_t>(space.available);
  disk.growth_per_second = std::max(0.0, growth_per_second.value_or(0));
  if (disk.growth_per_second == 0) return disk;
  const absl::Duration lasts =
      absl::Seconds(static_cast<double>(disk.free_bytes) / disk.growth_per_second);
  if (lasts < kVeryLong) disk.lasts = lasts;
  return disk;
}

std::string DiskText(const DiskOutlook& disk) {
  if (disk.bytes == 0) return "unknown";
  std::string text = absl::StrCat(BytesText(disk.free_bytes), " free of ", BytesText(disk.bytes));
  if (disk.lasts) {
    absl::StrAppend(&text, ", full in ", DurationText(*disk.lasts), " at ",
                    BytesText(static_cast<int64_t>(disk.growth_per_second)), "/s");
  }
  return text;
}

}  // namespace ranklog::cli
