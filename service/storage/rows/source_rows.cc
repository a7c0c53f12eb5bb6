#include "service/storage/rows/source_rows.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/records.h"

namespace ranklog::storage {

absl::Status SourceRows::Complete(model::Block& block) {
  RETURN_IF_ERROR(FindStream(block.source));
  const std::vector<double> added = std::exchange(block.values, {});
  const size_t rows = block.rows();
  block.steps.reserve(rows);
  block.times_us.reserve(rows);
  for (size_t row = 0; row < rows; ++row) {
    const uint64_t seq = block.source.seqs[row];
    if (rows_.empty() || seq < batch_.first || seq > batch_.last) {
      RETURN_IF_ERROR(ReadBatchOf(seq));
    }
    const auto [from, index] = rows_[seq - batch_.first];
    const size_t width = from->width();
    if (row == 0) block.values.reserve(rows * (width + block.source.added));
    block.steps.push_back(from->steps[index]);
    block.times_us.push_back(from->times_us[index]);
    const double* const values = from->values.data() + index * width;
    block.values.insert(block.values.end(), values, values + width);
    const double* const after = added.data() + row * block.source.added;
    block.values.insert(block.values.end(), after, after + block.source.added);
    for (const model::Text& text : model::TextsOf(*from, index)) {
      block.texts.push_back(text);
      block.texts.back().row = static_cast<uint32_t>(row);
    }
  }
  return absl::OkStatus();
}

absl::Status SourceRows::FindStream(const model::Source& source) {
  if (stream_ != 0 && source.rank == rank_ && source.incarnation == incarnation_) {
    return absl::OkStatus();
  }
  rows_.clear();
  stream_ = 0;
  rank_ = source.rank;
  incarnation_ = source.incarnation;
  const absl::StatusOr<int64_t> stream = database_->SelectInteger(
      "SELECT id FROM stream WHERE run = ?1 AND rank = ?2 AND incarnation = ?3",
      {run_, rank_, incarnation_});
  if (absl::IsNotFound(stream.status())) {
    RETURN_IF_ERROR(database_->SelectInteger("SELECT id FROM run WHERE id = ?1", {run_}).status());
    return Damaged(source.seqs.front(), "the stream is missing");
  }
  ASSIGN_OR_RETURN(stream_, stream);
  Query owner = database_->Select(kSelectStreamOwner, {stream_});
  if (owner.Next()) seal_ = owner.Text(0);
  return owner.status();
}

absl::Status SourceRows::ReadBatchOf(uint64_t seq) {
  rows_.clear();
  Query query = database_->Select(
      "SELECT data, last_seq FROM stream_batch WHERE stream = ?1 AND last_seq >= ?2 "
      "ORDER BY last_seq LIMIT 1",
      {stream_, seq});
  if (!query.Next()) {
    RETURN_IF_ERROR(query.status());
    return Damaged(seq, "missing");
  }
  absl::StatusOr<model::Batch> batch = DecodeBatch(query.Bytes(0), seal_);
  if (!batch.ok()) return Damaged(seq, batch.status().message());
  if (batch->first > seq || batch->last != query.Unsigned(1)) return Damaged(seq, "missing");
  batch_ = *std::move(batch);
  rows_.reserve(batch_.rows());
  model::ForEachRow(batch_, [this](const model::Block& block, size_t row, uint64_t) {
    rows_.emplace_back(&block, row);
  });
  return absl::OkStatus();
}

absl::Status SourceRows::Damaged(uint64_t seq, absl::string_view why) const {
  return absl::DataLossError(absl::StrCat("row ", seq, " of rank ", rank_,
                                          ", which a row of the run repeats, cannot be read in ",
                                          database_->path(), ": ", why));
}

}  // namespace ranklog::storage
