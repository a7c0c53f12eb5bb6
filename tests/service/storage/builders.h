// Sessions and batches for the tests of the store.

#ifndef TESTS_SERVICE_STORAGE_BUILDERS_H_
#define TESTS_SERVICE_STORAGE_BUILDERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/model/batch.h"
#include "service/model/session.h"
#include "service/storage/store.h"

namespace ranklog::testing {

inline model::Session SessionOf(uint32_t rank, uint64_t incarnation = 7,
                                const std::string& job_id = "job") {
  model::Session session;
  session.stream = {"gpt", job_id, rank, incarnation};
  session.settings.name = absl::StrCat("name-", rank);
  session.settings.group = "group";
  session.settings.destinations = {"wandb", "local"};
  session.settings.start_time_us = 100 + rank;
  session.identity.world_size = 4;
  session.identity.local_rank = rank;
  session.identity.node = "node-a";
  session.identity.pid = 4000 + rank;
  return session;
}

inline storage::RunAssignment AssignmentOf(const std::string& run_id, bool primary = true) {
  return {
      .run_id = run_id, .name = run_id, .primary_rank = 0, .primary = primary, .local_only = false};
}

// Makes `rows` rows of one shape, from `first` on. Values encode the position and the column.
inline model::Batch Dense(uint64_t first, uint64_t rows, uint32_t shape, size_t width) {
  model::Batch batch;
  batch.first = first;
  batch.last = first + rows - 1;
  model::Block& block = batch.blocks.emplace_back();
  block.shape = shape;
  for (uint64_t row = 0; row < rows; ++row) {
    block.offsets.push_back(static_cast<uint32_t>(row));
    block.steps.push_back(static_cast<int64_t>(first + row));
    block.times_us.push_back(1'700'000'000'000'000 + static_cast<int64_t>(row) * 1000);
    for (size_t column = 0; column < width; ++column) {
      block.values.push_back(static_cast<double>(first + row) + static_cast<double>(column) / 16);
    }
  }
  return batch;
}

// Appends `item` as the next one of the stream.
inline absl::Status AppendItem(storage::Store& store, int64_t stream, model::Item item,
                               int64_t time_us = 1000) {
  const absl::StatusOr<uint64_t> last = store.AppendItems(stream, {});
  if (!last.ok()) return last.status();
  item.seq = *last + 1;
  item.time_us = time_us;
  return store.AppendItems(stream, {item}).status();
}

// Returns the keys a0, a1, ...
inline std::vector<std::string> Keys(size_t count) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < count; ++i) keys.push_back(absl::StrCat("a", i));
  return keys;
}

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_STORAGE_BUILDERS_H_
