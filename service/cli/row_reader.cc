#include "service/cli/row_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"

namespace ranklog::cli {
namespace {

constexpr size_t kPageBytes = 4 << 20;

struct Source {
  int64_t owner;
  absl::FunctionRef<absl::StatusOr<Batches>(uint64_t begin)> page;  // with rows from `begin` on
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

}  // namespace

absl::Span<const model::Text> Row::texts() const {
  const auto [first, last] = std::equal_range(
      block.texts.begin(), block.texts.end(), model::Text{static_cast<uint32_t>(index), "", ""},
      [](const model::Text& a, const model::Text& b) { return a.row < b.row; });
  return absl::MakeConstSpan(block.texts).subspan(first - block.texts.begin(), last - first);
}

absl::Status VisitRunBatches(storage::StoreReader& reader, int64_t run, uint64_t begin,
                             uint64_t end, BatchVisitor visitor) {
  const auto page = [&](uint64_t from) { return reader.RunBatches(run, from, kPageBytes); };
  const auto shapes = [&] { return reader.RunShapes(run); };
  return VisitBatches({run, page, shapes}, begin, end, visitor);
}

absl::Status VisitRunRows(storage::StoreReader& reader, int64_t run, uint64_t begin, uint64_t end,
                          RowVisitor visitor) {
  const auto page = [&](uint64_t from) { return reader.RunBatches(run, from, kPageBytes); };
  const auto shapes = [&] { return reader.RunShapes(run); };
  return VisitRows({run, page, shapes}, begin, end, visitor);
}

absl::Status VisitStreamRows(storage::StoreReader& reader, int64_t stream, uint64_t last_seq,
                             RowVisitor visitor) {
  const auto page = [&](uint64_t from) {
    return reader.StreamBatches(stream, from - 1, kPageBytes);
  };
  const auto shapes = [&] { return reader.Shapes(stream); };
  return VisitRows({stream, page, shapes}, 1, last_seq + 1, visitor);
}

}  // namespace ranklog::cli
