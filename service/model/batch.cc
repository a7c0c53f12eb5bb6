#include "service/model/batch.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/model/json_text.h"

namespace ranklog::model {
namespace {

absl::Status Invalid(size_t block, const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("block ", block, " of the batch: ", what));
}

absl::Status ValidateTexts(const Block& block, size_t index) {
  uint32_t row = 0;
  for (const Text& text : block.texts) {
    if (text.row >= block.rows()) {
      return Invalid(index, "a text refers to a row that does not exist");
    }
    if (text.row < row) return Invalid(index, "texts out of order");
    if (text.key.empty()) return Invalid(index, "a text with an empty key");
    if (text.json && ParseJsonText(text.value).is_discarded()) {
      return Invalid(index, "a value that is not JSON");
    }
    row = text.row;
  }
  return absl::OkStatus();
}

absl::Status ValidateBlock(const Block& block, size_t index, uint64_t rows_of_batch) {
  const size_t rows = block.rows();
  if (block.steps.size() != rows) return Invalid(index, "not one step per row");
  if (block.times_us.size() != rows) return Invalid(index, "not one time per row");
  if (block.shape == 0 && !block.values.empty()) return Invalid(index, "values without a shape");
  if (block.shape != 0 && rows != 0 && block.values.empty()) {
    return Invalid(index, "a shape without values");
  }
  if (rows == 0 ? !block.values.empty() : block.values.size() % rows != 0) {
    return Invalid(index, "values that do not fill the rows");
  }
  const auto not_ascending = std::adjacent_find(block.offsets.begin(), block.offsets.end(),
                                                [](uint32_t a, uint32_t b) { return a >= b; });
  if (not_ascending != block.offsets.end()) return Invalid(index, "offsets out of order");
  if (rows != 0 && block.offsets.back() >= rows_of_batch) {
    return Invalid(index, "a row after the batch's last");
  }
  if (!std::is_sorted(block.steps.begin(), block.steps.end())) {
    return Invalid(index, "steps out of order");
  }
  return ValidateTexts(block, index);
}

// Each block fills the positions of its rows; a position that is filled twice is an error. There
// are as many rows as positions, so then no position is empty.
absl::Status ValidatePositions(const Batch& batch) {
  if (batch.blocks.size() == 1) return absl::OkStatus();  // ascending and in range: all are there
  std::vector<bool> taken(batch.rows());
  for (size_t b = 0; b < batch.blocks.size(); ++b) {
    for (uint32_t offset : batch.blocks[b].offsets) {
      if (taken[offset]) return Invalid(b, "two rows have the same position");
      taken[offset] = true;
    }
  }
  return absl::OkStatus();
}

void CopyRow(const Block& from, size_t row, uint64_t dropped, Block& to) {
  const size_t width = from.width();
  to.offsets.push_back(static_cast<uint32_t>(from.offsets[row] - dropped));
  to.steps.push_back(from.steps[row]);
  to.times_us.push_back(from.times_us[row]);
  const auto values = from.values.begin() + static_cast<ptrdiff_t>(row * width);
  to.values.insert(to.values.end(), values, values + static_cast<ptrdiff_t>(width));
}

}  // namespace

absl::Status Validate(const Batch& batch) {
  if (batch.last < batch.first ||
      batch.last - batch.first >= std::numeric_limits<uint32_t>::max()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch from position ", batch.first, " to ", batch.last));
  }
  uint64_t rows = 0;
  for (size_t b = 0; b < batch.blocks.size(); ++b) {
    RETURN_IF_ERROR(ValidateBlock(batch.blocks[b], b, batch.rows()));
    rows += batch.blocks[b].rows();
  }
  if (rows != batch.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows(), " positions with ", rows, " rows"));
  }
  return ValidatePositions(batch);
}

Batch Part(const Batch& batch, uint64_t first, uint64_t last) {
  const uint64_t dropped = first - batch.first;
  Batch kept{.first = first, .last = last, .blocks = {}};
  for (const Block& block : batch.blocks) {
    Block rest;
    rest.shape = block.shape;
    rest.commits = block.commits;
    rest.counted = block.counted;
    const auto place_of = [&block](uint64_t offset) {
      const auto found = std::lower_bound(block.offsets.begin(), block.offsets.end(), offset);
      return static_cast<size_t>(found - block.offsets.begin());
    };
    const size_t begin = place_of(dropped);
    const size_t end = place_of(last - batch.first + 1);
    for (size_t row = begin; row < end; ++row) CopyRow(block, row, dropped, rest);
    for (const Text& text : block.texts) {
      if (text.row < begin || text.row >= end) continue;
      rest.texts.push_back(text);
      rest.texts.back().row -= static_cast<uint32_t>(begin);
    }
    if (rest.rows() != 0) kept.blocks.push_back(std::move(rest));
  }
  return kept;
}

Batch DropThrough(const Batch& batch, uint64_t position) {
  return position < batch.first ? batch : Part(batch, position + 1, batch.last);
}

absl::Span<const Text> TextsOf(const Block& block, size_t row) {
  const auto [first, last] = std::equal_range(
      block.texts.begin(), block.texts.end(), Text{static_cast<uint32_t>(row), {}, {}},
      [](const Text& a, const Text& b) { return a.row < b.row; });
  return absl::MakeConstSpan(block.texts).subspan(first - block.texts.begin(), last - first);
}

size_t BytesOf(const Batch& batch) {
  size_t bytes = 0;
  for (const Block& block : batch.blocks) {
    bytes += block.rows() * 20 + block.values.size() * sizeof(double);
    for (const Text& text : block.texts) bytes += text.key.size() + text.value.size() + 16;
  }
  return bytes;
}

}  // namespace ranklog::model
