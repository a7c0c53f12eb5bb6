// The rows of RingWriter that do not look like the row expected next: with another shape, texts, or keys
// that are invalid or occur twice.

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "client/base/text/fields.h"
#include "client/base/text/json.h"
#include "client/base/text/keys.h"
#include "client/ring/record_bytes.h"
#include "client/ring/ring_writer.h"

namespace ranklog::internal {
namespace {

// The value if it is logged as a double: a number, or an integer that a double holds exactly.
std::optional<double> NumberOf(const ranklog_field& metric) {
  constexpr int64_t kExact = int64_t{1} << 53;
  const int64_t integer = metric.signed_integer;
  if (metric.kind == RANKLOG_NUMBER) return metric.number;
  if (metric.kind == RANKLOG_SIGNED && integer >= -kExact && integer <= kExact) {
    return static_cast<double>(integer);
  }
  if (metric.kind == RANKLOG_UNSIGNED && metric.unsigned_integer <= uint64_t{kExact}) {
    return static_cast<double>(metric.unsigned_integer);
  }
  return std::nullopt;
}

}  // namespace

WriteResult RingWriter::WriteSlowly(std::span<const ranklog_field> row, const RowStep& step) {
  keys_.clear();
  values_.clear();
  texts_.clear();
  json_.clear();
  left_out_.clear();
  for (const ranklog_field& metric : row) {
    if (const std::optional<double> number = NumberOf(metric)) {
      keys_.push_back(KeyOf(metric));
      values_.push_back(*number);
    } else {
      AddText(metric);
    }
  }
  if (HasRepeatedText()) return WriteLastOfEach(row, step);
  Shape* shape = Find(keys_);
  if (shape == nullptr && LeaveOutInvalidKeys()) shape = Find(keys_);
  if (shape == nullptr) {
    const WriteResult outcome = FindOrDefine(keys_, step, &shape);
    if (outcome == WriteResult::kInvalid && duplicates_) return WriteLastOfEach(row, step);
    if (outcome != WriteResult::kTaken) return outcome;
  }

  size_t text_bytes = 0;
  for (const Text& text : texts_)
    text_bytes += sizeof(v1::TextHeader) + text.key.size() + text.bytes;
  const size_t bytes = sizeof(v1::RowRecord) + 8 * values_.size() + Align(text_bytes);
  std::byte* const record = Reserve(bytes);
  if (record == nullptr) return Refusal(bytes);
  std::byte* at = record + sizeof(v1::RowRecord);
  if (!values_.empty()) std::memcpy(at, values_.data(), 8 * values_.size());
  at += 8 * values_.size();
  for (const Text& text : texts_) {
    const v1::TextHeader header = {static_cast<uint16_t>(text.key.size()),
                                   static_cast<uint16_t>(text.json),
                                   static_cast<uint32_t>(text.bytes)};
    std::memcpy(at, &header, sizeof header);
    at = Append(at + sizeof header, text.key);
    at = Append(at, text.json ? std::string_view(json_).substr(text.begin, text.bytes) : text.text);
  }
  const WriteResult outcome =
      PublishRow(record, shape, values_.size(), text_bytes, texts_.size(), step);
  return outcome == WriteResult::kTaken && !left_out_.empty() ? TakenInPart(left_out_.size())
                                                              : outcome;
}

// Adds a value that is not a double to texts_, or to left_out_.
void RingWriter::AddText(const ranklog_field& metric) {
  const std::string_view key = KeyOf(metric);
  std::string error = KeyError(key);
  Text text = {key, {}, metric.kind != RANKLOG_TEXT, json_.size(), 0};
  if (!error.empty()) {
    // The key is at fault, whatever the value is.
  } else if (text.json) {
    error = AppendJson(metric, &json_);
    text.bytes = json_.size() - text.begin;
  } else {
    text.text = FieldText(metric);
    text.bytes = text.text.size();
    if (!IsUtf8(text.text)) error = "a text that is not UTF-8";
  }
  const size_t record =
      sizeof(v1::RowRecord) + Align(sizeof(v1::TextHeader) + text.key.size() + text.bytes);
  if (error.empty() && leaves_out_large_ && record > capacity_ / 2) {
    error = std::to_string(text.bytes) +
            " bytes, more than half of the spool; raise spool_bytes, or free space for the spool";
  }
  if (error.empty()) {
    texts_.push_back(text);
  } else {
    json_.resize(text.begin);
    left_out_.push_back(KeyError(key).empty() ? "the value of " + std::string(key) + " has " + error
                                              : std::move(error));
  }
}

// Leaves out the numbers whose keys cannot be logged. Returns whether there are any. The keys of a
// known shape need no check.
bool RingWriter::LeaveOutInvalidKeys() {
  size_t kept = 0;
  for (size_t i = 0; i < keys_.size(); ++i) {
    std::string error = KeyError(keys_[i]);
    if (error.empty()) {
      keys_[kept] = keys_[i];
      values_[kept++] = values_[i];
    } else {
      left_out_.push_back(std::move(error));
    }
  }
  if (kept == keys_.size()) return false;
  keys_.resize(kept);
  values_.resize(kept);
  return true;
}

// Whether the key of a text occurs twice in the row, which is in keys_ and texts_. Repeated keys of
// numbers are found when their shape is defined.
bool RingWriter::HasRepeatedText() {
  text_keys_.clear();
  for (const Text& text : texts_) text_keys_.push_back(text.key);
  std::sort(text_keys_.begin(), text_keys_.end());
  const auto is_text = [this](std::string_view key) {
    return std::binary_search(text_keys_.begin(), text_keys_.end(), key);
  };
  return std::adjacent_find(text_keys_.begin(), text_keys_.end()) != text_keys_.end() ||
         std::any_of(keys_.begin(), keys_.end(), is_text);
}

WriteResult RingWriter::WriteLastOfEach(std::span<const ranklog_field> row, const RowStep& step) {
  absl::flat_hash_map<std::string, size_t> last;
  for (size_t i = 0; i < row.size(); ++i) last[std::string(KeyOf(row[i]))] = i;
  std::vector<ranklog_field> unique;
  for (size_t i = 0; i < row.size(); ++i) {
    if (last[std::string(KeyOf(row[i]))] == i) unique.push_back(row[i]);
  }
  return WriteSlowly(unique, step);
}

}  // namespace ranklog::internal
