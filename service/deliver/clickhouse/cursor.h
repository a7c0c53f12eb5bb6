// What a delivery to ClickHouse must remember.

#ifndef SERVICE_DELIVER_CLICKHOUSE_CURSOR_H_
#define SERVICE_DELIVER_CLICKHOUSE_CURSOR_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/optional.h"
#include "service/model/run.h"

namespace ranklog::deliver::clickhouse {

// Rows of a stream that the server has: those up to these sequence numbers.
struct Place {
  uint64_t points = 0;
  uint64_t texts = 0;

  friend bool operator==(const Place&, const Place&) = default;
};

// The rows that are sent next. It is stored before it is sent, and does not change until it is
// answered: so a repetition has the same rows and the same token.
struct Cut {
  std::map<int64_t, uint64_t> to;  // the last row of each stream, by its id in the store
  // When it was fixed, by a clock that nobody can set, of this boot.
  std::string boot;
  int64_t boot_us = 0;

  friend bool operator==(const Cut&, const Cut&) = default;
};

// A delivery's cursor, a JSON object:
//
//   tables       1: the tables are there
//   streams      {"ID": [POINTS, TEXTS], ...}: the places
//   cut          {"to": {"ID": SEQ, ...}, "boot": TEXT, "boot_us": N}; absent: no cut is on its way
//   samples      system metrics that the server has; samples_to: of the cut that is on its way
//   version      the largest version of a description that was sent
//   described    digest of the description that the server has
struct Cursor {
  bool tables = false;
  std::map<int64_t, Place> places;
  absl::optional<Cut> cut;
  uint64_t samples = 0;
  uint64_t samples_to = 0;
  uint64_t version = 0;
  std::string described;
};

Cursor CursorFrom(const model::Json& json);
model::Json ToJson(const Cursor& cursor);

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_CURSOR_H_
