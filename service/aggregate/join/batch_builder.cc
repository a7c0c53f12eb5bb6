#include "service/aggregate/join/batch_builder.h"

#include <utility>

namespace ranklog::aggregate {

model::Block& BatchBuilder::BlockOf(Kind kind) {
  model::Batch& batch = batches_.back();
  auto [found, is_new] = blocks_.try_emplace(kind, batch.blocks.size());
  if (is_new) {
    model::Block& block = batch.blocks.emplace_back();
    block.shape = kind.shape;
    block.commits = block.counted = kind.counted;
    if (kind.source != nullptr) {
      block.source = {kind.source->rank, kind.source->incarnation, kind.added, {}};
    }
  }
  return batch.blocks[found->second];
}

double* BatchBuilder::AddRow(Kind kind, uint64_t seq, size_t width, int64_t step, int64_t time_us) {
  if (batches_.empty() || bytes_ > kBatchBytes || blocks_.size() >= kBatchBlocks) {
    batches_.emplace_back().first = next_index_;
    blocks_.clear();
    bytes_ = 0;
  }
  model::Block& block = BlockOf(kind);
  model::Batch& batch = batches_.back();
  block.offsets.push_back(static_cast<uint32_t>(next_index_ - batch.first));
  block.steps.push_back(step);
  block.times_us.push_back(time_us);
  if (kind.source != nullptr) block.source.seqs.push_back(seq);
  block.values.resize(block.values.size() + width);
  batch.last = next_index_++;
  bytes_ += 20 + 8 * width;
  last_kind_ = kind;
  return block.values.data() + (block.values.size() - width);
}

void BatchBuilder::AddText(model::Text text) {
  model::Block& block = BlockOf(last_kind_);
  bytes_ += 12 + text.key.size() + text.value.size();
  text.row = static_cast<uint32_t>(block.rows() - 1);
  block.texts.push_back(std::move(text));
}

std::vector<model::Batch> BatchBuilder::Take() {
  blocks_.clear();
  bytes_ = 0;
  return std::exchange(batches_, {});
}

}  // namespace ranklog::aggregate
