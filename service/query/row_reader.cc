#include "service/query/row_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "service/base/status_macros.h"

namespace ranklog::query {
namespace {

constexpr size_t kPageBytes = 4 << 20;

struct Source {
  int64_t owner;
  absl::FunctionRef<absl::StatusOr<Batches>(uint64_t begin)> page;  // rows starting at `begin`
  ShapeSource shapes;
};

}  // namespace

absl::Status LearnShapes(const model::Batch& batch, ShapeSource source, Shapes* shapes) {
  const auto known = [&](const model::Block& block) {
    if (block.shape == 0) return block.values.empty();
    return block.shape < shapes->size() && (*shapes)[block.shape].size() == block.width();
  };
  if (std::all_of(batch.blocks.begin(), batch.blocks.end(), known)) return absl::OkStatus();
  ASSIGN_OR_RETURN(*shapes, source());
  if (std::all_of(batch.blocks.begin(), batch.blocks.end(), known)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the rows from ", batch.first, " to ", batch.last, " are of an unknown shape"));
}

namespace {

absl::Status VisitRowsOf(const model::Batch& batch, const Shapes& shapes, int64_t owner,
                         uint64_t begin, uint64_t end, RowVisitor visitor) {
  static const std::vector<std::string> kNoKeys;
  absl::Status status;
  model::ForEachRow(batch, [&](const model::Block& block, size_t index, uint64_t position) {
    if (!status.ok() || position < begin || position >= end) return;
    const std::vector<std::string>& keys = block.shape == 0 ? kNoKeys : shapes[block.shape];
    status = visitor(Row{owner, position, block, index, keys});
  });
  return status;
}

absl::Status VisitBatches(const Source& source, uint64_t begin, uint64_t end,
                          BatchVisitor visitor) {
  Shapes shapes;
  while (begin < end) {
    ASSIGN_OR_RETURN(const Batches batches, source.page(begin));
    if (batches.empty()) return absl::OkStatus();
    for (const storage::StoredBatch& stored : batches) {
      RETURN_IF_ERROR(LearnShapes(stored.batch, source.shapes, &shapes));
      RETURN_IF_ERROR(visitor(stored.batch, shapes));
      begin = std::max(begin, stored.batch.last + 1);
      if (begin >= end) break;
    }
  }
  return absl::OkStatus();
}

absl::Status VisitRows(const Source& source, uint64_t begin, uint64_t end, RowVisitor visitor) {
  return VisitBatches(source, begin, end, [&](const model::Batch& batch, const Shapes& shapes) {
    return VisitRowsOf(batch, shapes, source.owner, begin, end, visitor);
  });
}

absl::StatusOr<Batches> PageOf(storage::StoreReader& reader, int64_t run, const RowRange& range,
                               uint64_t from, size_t max_bytes) {
  return range.replays ? reader.ReplayBatches(run, from, max_bytes)
                       : reader.RunBatches(run, from, max_bytes);
}

// The rows between two rewinds: replays, then rows after them, with ascending steps.
struct Attempt {
  RowRange replays{.replays = true};
  RowRange rows;
  // Rows with this step or a larger one are hidden.
  int64_t end_step = std::numeric_limits<int64_t>::max();
};

absl::StatusOr<std::vector<Attempt>> AttemptsOf(storage::StoreReader& reader,
                                                const model::Run& run) {
  ASSIGN_OR_RETURN(const std::vector<model::Rewind> rewinds, reader.Rewinds(run.id));
  std::vector<Attempt> attempts(1);
  for (const model::Rewind& rewind : rewinds) {
    // A rewind after the run was read has no rows in this snapshot.
    attempts.back().rows.end = std::min(rewind.rows, run.rows);
    attempts.back().replays.end = std::min(rewind.replays, run.replays);
    Attempt& next = attempts.emplace_back();
    next.rows.begin = std::min(rewind.rows, run.rows);
    next.replays.begin = std::min(rewind.replays, run.replays);
  }
  attempts.back().rows.end = run.rows;
  attempts.back().replays.end = run.replays;
  for (size_t i = rewinds.size(); i-- > 0;) {
    attempts[i].end_step = std::min(rewinds[i].first_step, attempts[i + 1].end_step);
  }
  return attempts;
}

absl::StatusOr<int64_t> StepAt(storage::StoreReader& reader, int64_t run, const RowRange& range,
                               uint64_t position) {
  ASSIGN_OR_RETURN(const Batches batches, PageOf(reader, run, range, position, /*max_bytes=*/1));
  absl::optional<int64_t> step;
  for (const storage::StoredBatch& stored : batches) {
    model::ForEachRow(stored.batch, [&](const model::Block& block, size_t row, uint64_t at) {
      if (at == position) step = block.steps[row];
    });
  }
  if (step.has_value()) return *step;
  return absl::DataLossError(absl::StrCat("row ", position, " is not in the store"));
}

// Shortens `range`, whose steps ascend, to the rows before the first row with `end_step` or above.
absl::Status Cut(storage::StoreReader& reader, int64_t run, int64_t end_step, RowRange* range) {
  if (end_step == std::numeric_limits<int64_t>::max()) return absl::OkStatus();
  uint64_t begin = range->begin;
  while (begin < range->end) {
    const uint64_t middle = begin + (range->end - begin) / 2;
    ASSIGN_OR_RETURN(const int64_t step, StepAt(reader, run, *range, middle));
    if (step < end_step) {
      begin = middle + 1;
    } else {
      range->end = middle;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const model::Text> Row::texts() const { return model::TextsOf(block, index); }

absl::StatusOr<std::vector<RowRange>> VisibleRows(storage::StoreReader& reader,
                                                  const model::Run& run) {
  ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, AttemptsOf(reader, run));
  std::vector<RowRange> visible;
  for (const Attempt& attempt : attempts) {
    for (RowRange range : {attempt.replays, attempt.rows}) {
      RETURN_IF_ERROR(Cut(reader, run.id, attempt.end_step, &range));
      if (range.rows() > 0) visible.push_back(range);
    }
  }
  return visible;
}

std::vector<RowRange> LastOf(std::vector<RowRange> ranges, uint64_t rows) {
  auto first = ranges.end();
  while (first != ranges.begin() && rows > 0) {
    --first;
    const uint64_t taken = std::min(rows, first->rows());
    first->begin = first->end - taken;
    rows -= taken;
  }
  return {first, ranges.end()};
}

absl::StatusOr<std::vector<RowRange>> MadeSince(storage::StoreReader& reader,
                                                const model::Run& before, const model::Run& run) {
  ASSIGN_OR_RETURN(const std::vector<Attempt> attempts, AttemptsOf(reader, run));
  std::vector<RowRange> made;
  for (const Attempt& attempt : attempts) {
    for (RowRange range : {attempt.replays, attempt.rows}) {
      range.begin = std::max(range.begin, range.replays ? before.replays : before.rows);
      if (range.begin < range.end) made.push_back(range);
    }
  }
  return made;
}

absl::Status VisitRunBatches(storage::StoreReader& reader, int64_t run, const RowRange& range,
                             BatchVisitor visitor) {
  const auto page = [&](uint64_t from) { return PageOf(reader, run, range, from, kPageBytes); };
  const auto shapes = [&] { return reader.RunShapes(run); };
  return VisitBatches({run, page, shapes}, range.begin, range.end,
                      [&](const model::Batch& batch, const Shapes& known) {
                        if (batch.first >= range.begin && batch.last < range.end)
                          return visitor(batch, known);
                        return visitor(model::Part(batch, std::max(batch.first, range.begin),
                                                   std::min(batch.last, range.end - 1)),
                                       known);
                      });
}

absl::Status VisitRunRows(storage::StoreReader& reader, int64_t run, const RowRange& range,
                          RowVisitor visitor) {
  const auto page = [&](uint64_t from) { return PageOf(reader, run, range, from, kPageBytes); };
  const auto shapes = [&] { return reader.RunShapes(run); };
  return VisitRows({run, page, shapes}, range.begin, range.end, visitor);
}

absl::Status VisitStreamRows(storage::StoreReader& reader, int64_t stream, uint64_t last_seq,
                             RowVisitor visitor) {
  const auto page = [&](uint64_t from) {
    return reader.StreamBatches(stream, from - 1, kPageBytes);
  };
  const auto shapes = [&] { return reader.Shapes(stream); };
  return VisitRows({stream, page, shapes}, 1, last_seq + 1, visitor);
}

}  // namespace ranklog::query
