// What reading a run back from a destination finds, for every kind of destination.

#ifndef SERVICE_DELIVER_READ_BACK_H_
#define SERVICE_DELIVER_READ_BACK_H_

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "service/deliver/http/retry.h"

namespace ranklog::deliver {

// The rows of the store compared with what the server has of them. A line is the server's record
// of a row.
struct HistoryDiff {
  struct Rows {  // [first, last]
    uint64_t first;
    uint64_t last;
  };
  struct Difference {
    uint64_t row;
    std::string text;  // member, actual value, and expected value
  };
  static constexpr size_t kKept = 20;  // limit for gaps and for differences; the counts include all

  uint64_t matching = 0;  // rows with the expected values
  uint64_t bare = 0;      // refused rows that are there without values
  uint64_t not_held = 0;  // rows that are there without values that this kind of server cannot hold
  uint64_t missing = 0;   // rows that are not there
  uint64_t differing = 0;   // rows with other values
  uint64_t duplicates = 0;  // extra copies of rows
  uint64_t unexpected = 0;  // lines that are not of a row
  std::vector<Rows> gaps;   // missing rows, ascending
  std::vector<Difference> differences;
  std::set<std::string> not_held_keys;  // keys of such values

  uint64_t lines() const {
    return matching + bare + not_held + differing + duplicates + unexpected;
  }
};

// A config or a summary at the server, compared with the one that was sent, by key.
struct DocumentDiff {
  static constexpr size_t kKept = 20;  // limit for `problems`; the counts include all

  bool compared = false;
  uint64_t matching = 0;              // keys with the same value
  uint64_t missing = 0;               // keys that are not at the server
  uint64_t differing = 0;             // keys with another value
  uint64_t unexpected = 0;            // keys at the server that were not sent
  std::vector<std::string> problems;  // each names its key

  uint64_t keys() const { return matching + missing + differing; }  // keys that were sent
  bool ok() const { return missing == 0 && differing == 0 && unexpected == 0; }
};

struct ReadBackOptions {
  absl::Duration timeout = absl::Seconds(30);  // time limit for the retries of a page
  uint64_t page_rows = 1000;                   // the page size of W&B's client
  size_t page_bytes = 1 << 20;                 // of expected lines; limits the memory
  Backoff::Options backoff;
  std::function<absl::Time()> now;                              // a steady clock
  std::function<void(absl::Duration)> sleep;                    // waits between two tries
  std::function<void(uint64_t done, uint64_t total)> progress;  // counts rows
};

struct ReadBackReport {
  // Rows that the server has acknowledged; refused rows count with their bare lines. Replays are
  // not sent.
  uint64_t sent = 0;
  HistoryDiff diff;  // `missing` excludes rows that were not checked
  // Rows that the server counts but does not return: old rows lie in files that this does not read.
  uint64_t not_checked = 0;
  int64_t lines = 0;       // lines of the run at the server
  int64_t base_lines = 0;  // of these, lines before ours
  bool continued = false;  // another store continues the run; lines after ours are its lines
  std::string state;       // of the run, as the server names it
  // Compared only after the run's end was delivered, because the server may be behind before that.
  DocumentDiff config;
  DocumentDiff summary;

  // All sent rows are at the server once and, if `ended`, nothing else is.
  bool ok(bool ended) const {
    return config.ok() && summary.ok() && diff.not_held == 0 && diff.missing == 0 &&
           diff.differing == 0 && diff.duplicates == 0 && diff.unexpected == 0 &&
           LineCountFits(ended);
  }
  int64_t expected_lines() const { return base_lines + static_cast<int64_t>(sent); }
  // If other stores feed the run too, they may have added lines since.
  bool LineCountFits(bool ended) const {
    const bool only_ours = base_lines == 0 && !continued;
    return ended && only_ours ? lines == expected_lines() : lines >= expected_lines();
  }
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_READ_BACK_H_
