#include "client/stream/batch_encoder.h"

#include <cstring>

namespace ranklog::internal {

void BatchEncoder::Start(v1::Batch* batch) {
  batch->Clear();
  batch_ = batch;
  open_.clear();
  last_block_ = rows_ = bytes_ = 0;
}

v1::Block* BatchEncoder::FindBlock(const RowView& row, bool has_text, size_t* index) {
  const auto fits = [&](size_t i) {
    const v1::Block& block = batch_->block(static_cast<int>(i));
    return block.shape() == row.record.shape && block.commits() == row.commits() &&
           block.counted() == row.counted() && open_[i].has_text == has_text;
  };
  if (last_block_ < open_.size() && fits(last_block_)) {
    *index = last_block_;
    return batch_->mutable_block(static_cast<int>(last_block_));
  }
  for (size_t i = 0; i < open_.size(); ++i) {
    if (!fits(i)) continue;
    *index = last_block_ = i;
    return batch_->mutable_block(static_cast<int>(i));
  }
  *index = last_block_ = open_.size();
  open_.push_back({has_text, 0, 0});
  v1::Block* const block = batch_->add_block();
  block->set_shape(row.record.shape);
  block->set_commits(row.commits());
  block->set_counted(row.counted());
  return block;
}

bool BatchEncoder::Add(const RowView& row, const TickReader& ticks) {
  if (rows_ > 0 && bytes_ + row.record.header.bytes > kMaxBytes) return false;
  if (rows_ == 0) batch_->set_first_seq(row.record.seq);
  batch_->set_last_seq(row.record.seq);

  size_t index;
  v1::Block* const block = FindBlock(row, row.record.text_count > 0, &index);
  Open& open = open_[index];
  const auto row_index = static_cast<uint32_t>(block->seq_offset_size());
  const int64_t time_us = ticks.UnixMicros(row.record.ticks);
  block->add_seq_offset(static_cast<uint32_t>(row.record.seq - batch_->first_seq()));
  block->add_step_delta(row.record.step - open.step);
  block->add_time_delta_us(time_us - open.time_us);
  open.step = row.record.step;
  open.time_us = time_us;
  block->mutable_value()->Add(row.values, row.values + row.record.value_count);
  ForEachText(row, [&](std::string_view key, std::string_view value, bool json) {
    v1::Text* const text = block->add_text();
    text->set_row(row_index);
    text->set_key(key.data(), key.size());
    text->set_value(value.data(), value.size());
    text->set_json(json);
  });
  ++rows_;
  bytes_ += row.record.header.bytes;
  return true;
}

}  // namespace ranklog::internal
