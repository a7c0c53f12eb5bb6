// Formats numbers for users. For programs, use deliver/json_writer.h.

#ifndef SERVICE_BASE_TEXT_NUMBER_TEXT_H_
#define SERVICE_BASE_TEXT_NUMBER_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace ranklog {

// With at most `digits` significant digits: 2.3079, 3e-04.
std::string ShortNumber(double value, int digits = 5);
// The same, but a whole number up to 2^53 is written in full: 123456789, not 1.2346e+08.
std::string PlainNumber(double value, int digits = 5);

std::string Counted(uint64_t count, const std::string& what);  // 1 row, 3 rows
std::string RowsText(uint64_t first, uint64_t last);           // row 7, rows 3 to 5
std::string BytesText(int64_t bytes);                          // 512 B, 1.2 MiB
std::string DurationText(absl::Duration value);  // 0.4 s, 2 m 13 s, 5 h 02 m, 3 d 04 h
std::string TimeText(int64_t unix_us);           // in the local time zone; "-" for 0

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_NUMBER_TEXT_H_
