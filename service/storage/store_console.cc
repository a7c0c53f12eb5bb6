// The lines that programs of the ranks printed. A changed line gets a new id, so that a destination
// finds all changes after the last one that it has.

#include <string>
#include <utility>
#include <vector>

#include "service/base/status_macros.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"

namespace ranklog::storage {
namespace {

// Of a run and rank: about 10 MB of usual lines, and at most 1.6 GB.
constexpr int64_t kKeptLines = 100'000;

constexpr char kSelectLines[] = "SELECT id, number, time_us, error, text FROM console ";

absl::StatusOr<std::vector<model::StoredConsoleLine>> LinesOf(Query query) {
  std::vector<model::StoredConsoleLine> lines;
  while (query.Next()) {
    lines.push_back({.id = query.Integer(0),
                     .line = {.number = query.Unsigned(1),
                              .time_us = query.Integer(2),
                              .error = query.Integer(3) != 0,
                              .text = std::string(query.Bytes(4))}});
  }
  RETURN_IF_ERROR(query.status());
  return lines;
}

}  // namespace

absl::Status Store::AppendConsole(int64_t run, int64_t stream, const model::Item& item) {
  ASSIGN_OR_RETURN(const int64_t rank,
                   writer_.SelectInteger("SELECT rank FROM stream WHERE id = ?1", {stream}));
  ASSIGN_OR_RETURN(
      int64_t next,
      writer_.SelectInteger(
          "SELECT coalesce(max(number), -1) + 1 FROM console WHERE run = ?1 AND rank = ?2",
          {run, rank}));
  for (const model::ConsoleLine& line : item.console) {
    const Parameter text = Parameter::Blob(line.text);
    const absl::StatusOr<int64_t> known = writer_.SelectInteger(
        "SELECT id FROM console WHERE stream = ?1 AND line = ?2", {stream, line.number});
    if (known.ok()) {
      RETURN_IF_ERROR(Write(
          "UPDATE console SET id = (SELECT max(id) + 1 FROM console), time_us = ?2, error = ?3, "
          "text = ?4 WHERE id = ?1",
          {*known, line.time_us, static_cast<int64_t>(line.error), text}));
      continue;
    }
    if (!absl::IsNotFound(known.status())) return known.status();
    RETURN_IF_ERROR(
        Write("INSERT INTO console(run, rank, number, stream, line, time_us, error, text) "
              "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
              {run, rank, next++, stream, line.number, line.time_us,
               static_cast<int64_t>(line.error), text}));
  }
  return Write("DELETE FROM console WHERE run = ?1 AND rank = ?2 AND number < ?3",
               {run, rank, next - kKeptLines});
}

absl::StatusOr<std::vector<model::StoredConsoleLine>> StoreReader::ConsoleLines(int64_t run,
                                                                                uint32_t rank,
                                                                                uint64_t from,
                                                                                size_t most) {
  return LinesOf(database_.Select(
      absl::StrCat(kSelectLines,
                   "WHERE run = ?1 AND rank = ?2 AND number >= ?3 ORDER BY number LIMIT ?4"),
      {run, rank, from, static_cast<int64_t>(most)}));
}

absl::StatusOr<std::vector<model::StoredConsoleLine>> StoreReader::ConsoleChanges(int64_t run,
                                                                                  uint32_t rank,
                                                                                  int64_t after_id,
                                                                                  size_t most) {
  return LinesOf(database_.Select(
      absl::StrCat(kSelectLines, "INDEXED BY console_by_change ",
                   "WHERE run = ?1 AND rank = ?2 AND id > ?3 ORDER BY id LIMIT ?4"),
      {run, rank, after_id, static_cast<int64_t>(most)}));
}

absl::StatusOr<std::map<uint32_t, ConsoleExtent>> StoreReader::ConsoleRanks(int64_t run) {
  std::map<uint32_t, ConsoleExtent> ranks;
  Query query = database_.Select(
      "SELECT rank, min(number), max(number) + 1 FROM console WHERE run = ?1 GROUP BY rank", {run});
  while (query.Next()) {
    ranks[static_cast<uint32_t>(query.Integer(0))] = {query.Unsigned(1), query.Unsigned(2)};
  }
  RETURN_IF_ERROR(query.status());
  return ranks;
}

}  // namespace ranklog::storage
