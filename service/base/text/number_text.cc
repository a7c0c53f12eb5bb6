#include "service/base/text/number_text.h"

#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ranklog {

std::string ShortNumber(double value, int digits) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return absl::StrFormat("%.*g", digits, value);
}

std::string PlainNumber(double value, int digits) {
  // 2^53: up to here a double represents all whole numbers.
  constexpr double kExact = 9007199254740992;
  const bool whole = std::abs(value) <= kExact && value == std::trunc(value);
  return whole ? absl::StrFormat("%.0f", value) : ShortNumber(value, digits);
}

std::string Counted(uint64_t count, const std::string& what) {
  return absl::StrCat(count, " ", what, count == 1 ? "" : "s");
}

std::string RowsText(uint64_t first, uint64_t last) {
  return first == last ? absl::StrCat("row ", first) : absl::StrCat("rows ", first, " to ", last);
}

std::string BytesText(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string DurationText(absl::Duration value) {
  const int64_t seconds = absl::ToInt64Seconds(value);
  if (seconds < 10) return absl::StrFormat("%.1f s", absl::ToDoubleSeconds(value));
  if (seconds < 60) return absl::StrFormat("%d s", seconds);
  if (seconds < 3600) return absl::StrFormat("%d m %02d s", seconds / 60, seconds % 60);
  if (seconds < 86400) return absl::StrFormat("%d h %02d m", seconds / 3600, seconds / 60 % 60);
  return absl::StrFormat("%d d %02d h", seconds / 86400, seconds / 3600 % 24);
}

std::string TimeText(int64_t unix_us) {
  if (unix_us == 0) return "-";
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(unix_us),
                          absl::LocalTimeZone());
}

}  // namespace ranklog
