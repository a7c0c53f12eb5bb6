#include "service/deliver/wandb/history/history.h"

#include <algorithm>
#include <utility>

#include "service/base/text/utf8.h"
#include "service/deliver/wandb/api/server_json.h"
#include "service/model/run.h"

namespace ranklog::deliver::wandb {
namespace {

constexpr absl::string_view kOwnKeys[] = {"_step", "_runtime"};
// Imported rows have their `_runtime`.
absl::Span<const absl::string_view> OwnKeys(bool imported) {
  return absl::MakeConstSpan(kOwnKeys).first(imported ? 1 : 2);
}

const aggregate::MetricTable* NoDefinitions() {
  static const auto* const none = new aggregate::MetricTable;
  return none;
}

// Appends `key:value,` with the quotes of the key and of a string value escaped for the string
// around the line. Returns the number of bytes without that escaping.
size_t AppendMember(absl::string_view key, absl::string_view json_value, std::string* out) {
  std::string plain;
  AppendString(key, &plain);
  plain += ':';
  plain.append(json_value.data(), json_value.size());
  plain += ',';
  AppendEscaped(plain, out);
  return plain.size();
}

template <typename Fn>
void ForEachText(const model::Block& block, size_t row, Fn&& fn) {
  auto text = std::lower_bound(block.texts.begin(), block.texts.end(), row,
                               [](const model::Text& t, size_t r) { return t.row < r; });
  for (; text != block.texts.end() && text->row == row; ++text) fn(*text);
}

bool HasText(const model::Block& block, size_t row, absl::string_view key) {
  bool found = false;
  ForEachText(block, row,
              [&](const model::Text& text) { found |= absl::string_view(text.key) == key; });
  return found;
}

bool HasKey(const std::vector<std::string>& keys, const model::Block& block, size_t row,
            absl::string_view key) {
  return HasText(block, row, key) ||
         std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& k) { return absl::string_view(k) == key; });
}

// Empty for an unknown shape or one of another width, because its values have no names.
const std::vector<std::string>& KeysOf(const model::Block& block,
                                       const std::vector<std::vector<std::string>>& shapes) {
  static const auto* const none = new std::vector<std::string>;
  const bool known = block.shape < shapes.size() && shapes[block.shape].size() == block.width();
  return known ? shapes[block.shape] : *none;
}

// The part of a quoted line's text that a dead letter keeps.
std::string Shortened(absl::string_view quoted) {
  const std::string text = Unquoted(quoted);
  return std::string(CutUtf8(text, model::DeadLetter::kMaxContent));
}

}  // namespace

std::string HistoryLines::Shown(uint64_t row) const { return Shortened(Of(row, 1)); }

absl::string_view HistoryLines::Of(uint64_t row, uint64_t rows) const {
  if (rows == 0) return "";
  const size_t begin = row == first ? 0 : ends[row - first - 1] + 1;
  return absl::string_view(content).substr(begin, ends[row - first + rows - 1] - begin);
}

History::History(const aggregate::MetricTable* table, RunClock clock, size_t max_line_bytes,
                 bool imported)
    : clock_(std::move(clock)),
      max_line_bytes_(max_line_bytes),
      imported_(imported),
      sync_(imported ? NoDefinitions() : table),
      sync_at_mark_(*sync_),
      summary_(table) {}

void History::SetFirstStep(int64_t step) {
  steps_.SetFirstStep(step);
  steps_at_mark_.SetFirstStep(step);
}

void History::Mark() {
  mark_ = next_;
  steps_at_mark_ = steps_;
  sync_at_mark_.emplace(*sync_);
}

void History::Rewind() {
  next_ = mark_;
  at_replay_ = false;
  steps_ = steps_at_mark_;
  sync_.emplace(*sync_at_mark_);
}

void History::Skip(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                   uint64_t to) {
  Take(batch, shapes, Rows::kAll, to, 0, {}, /*lines=*/nullptr);
}

void History::SkipReplays(const model::Batch& batch,
                          const std::vector<std::vector<std::string>>& shapes, uint64_t to) {
  Take(batch, shapes, Rows::kReplays, to, 0, {}, /*lines=*/nullptr);
}

void History::Write(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                    uint64_t to, size_t max_bytes, const std::set<uint64_t>& bare,
                    HistoryLines* lines) {
  Take(batch, shapes, Rows::kLines, to, max_bytes, bare, lines);
}

void History::Take(const model::Batch& batch, const std::vector<std::vector<std::string>>& shapes,
                   Rows rows, uint64_t to, size_t max_bytes, const std::set<uint64_t>& bare,
                   HistoryLines* lines) {
  const uint64_t from = next_;
  bool stopped = false;
  struct AddedValue {
    std::string key;
    double value;
    int64_t step;
  };
  std::vector<AddedValue> added_values;
  model::ForEachRow(batch, [&](const model::Block& block, size_t row, uint64_t position) {
    const bool full = lines != nullptr && !lines->ends.empty() && lines->line_bytes >= max_bytes;
    if (position < from || position >= to || full || stopped) return;
    const bool replay = steps_.IsReplay(block, row);
    at_replay_ = replay && rows == Rows::kLines;
    stopped = at_replay_ || (!replay && rows == Rows::kReplays);
    if (stopped) return;
    const int64_t step = replay ? steps_.last() : steps_.Take(block, row);
    if (position >= summarized_) last_line_step_ = step;
    const std::vector<std::string>& keys = KeysOf(block, shapes);
    const aggregate::StepSync::Plan& plan = sync_->PlanFor(block.shape, keys);
    sync_->Next(plan, block.values.data() + row * keys.size(), &added_);
    for (size_t i = 0; i < added_.size() && position >= summarized_; ++i) {
      if (HasText(block, row, plan.added[i])) continue;
      added_values.push_back({plan.added[i], added_[i], block.steps[row]});
    }
    next_ = position + 1;
    if (lines == nullptr) return;

    if (!lines->ends.empty()) lines->content += ',';
    const size_t begin = lines->content.size();
    size_t bytes =
        AppendLine(block, row, step, keys, plan, bare.count(position) > 0, &lines->content);
    if (bytes > max_line_bytes_) {
      lines->too_long.push_back(
          {position, bytes, Shortened(absl::string_view(lines->content).substr(begin))});
      lines->content.resize(begin);
      bytes = AppendLine(block, row, step, keys, plan, /*bare=*/true, &lines->content);
    }
    lines->line_bytes += bytes;
    lines->ends.push_back(lines->content.size());
    lines->steps.push_back(step);
  });
  Summarize(batch, shapes);
  for (const AddedValue& added : added_values) {
    summary_.AddValue(added.key, added.value, added.step);
  }
}

void History::Summarize(const model::Batch& batch,
                        const std::vector<std::vector<std::string>>& shapes) {
  const uint64_t first = std::max(summarized_, batch.first);
  if (first >= next_ || next_ <= batch.first) return;
  const bool whole = first == batch.first && next_ == batch.last + 1;
  summary_.Add(whole ? batch : Slice(batch, first, next_ - 1), shapes);
  summarized_ = next_;
}

model::Json History::SummaryJson() const {
  model::Json summary = summary_.ToJson();
  if (steps_.last() >= 0 && next_ > 0) {
    summary["_step"] = std::max(last_line_step_, steps_.last());
  }
  return summary;
}

size_t History::AppendLine(const model::Block& block, size_t row, int64_t step,
                           const std::vector<std::string>& keys,
                           const aggregate::StepSync::Plan& plan, bool bare, std::string* out) {
  size_t bytes = 2;  // the braces
  *out += "\"{";
  if (!bare) {
    bytes += FormatOf(block.shape, keys).Append(block.values.data() + row * keys.size(), out);
    ForEachText(block, row, [&](const model::Text& text) {
      const auto own = OwnKeys(imported_);
      if (std::find(own.begin(), own.end(), absl::string_view(text.key)) != own.end()) return;
      if (text.json) {
        bytes += AppendMember(text.key, text.value, out);
        return;
      }
      std::string quoted;
      AppendString(text.value, &quoted);
      bytes += AppendMember(text.key, quoted, out);
    });
    for (size_t i = 0; i < added_.size(); ++i) {
      if (HasText(block, row, plan.added[i])) continue;
      std::string number;
      AppendNumber(added_[i], &number);
      bytes += AppendMember(plan.added[i], number, out);
    }
  }
  // Our own members need escaping only for the quotes of their names.
  const size_t begin = out->size();
  size_t names = 1;  // each name has two quotes
  if (bare || !HasKey(keys, block, row, "_timestamp")) {
    *out += "\\\"_timestamp\\\":";
    AppendSeconds(block.times_us[row], out);
    *out += ',';
    ++names;
  }
  if (bare || !imported_ || !HasKey(keys, block, row, "_runtime")) {
    *out += "\\\"_runtime\\\":";
    AppendSeconds(clock_.RuntimeUs(block.times_us[row]), out);
    *out += ',';
    ++names;
  }
  *out += "\\\"_step\\\":";
  AppendInteger(step, out);
  bytes += out->size() - begin - 2 * names;
  *out += "}\"";
  return bytes;
}

const RowFormat& History::FormatOf(uint32_t shape, const std::vector<std::string>& keys) {
  const auto it = formats_.find(shape);
  if (it != formats_.end()) return it->second;
  return formats_.emplace(shape, RowFormat(keys, OwnKeys(imported_))).first->second;
}

model::Batch Slice(const model::Batch& batch, uint64_t first, uint64_t last) {
  model::Batch slice;
  slice.first = first;
  slice.last = last;
  for (const model::Block& block : batch.blocks) {
    const size_t width = block.width();
    model::Block part;
    part.shape = block.shape;
    part.commits = block.commits;
    for (size_t row = 0; row < block.rows(); ++row) {
      const uint64_t position = batch.first + block.offsets[row];
      if (position < first || position > last) continue;
      ForEachText(block, row, [&](const model::Text& text) {
        part.texts.push_back(text);
        part.texts.back().row = static_cast<uint32_t>(part.rows());
      });
      part.offsets.push_back(static_cast<uint32_t>(position - first));
      part.steps.push_back(block.steps[row]);
      part.times_us.push_back(block.times_us[row]);
      const auto values = block.values.begin() + static_cast<ptrdiff_t>(row * width);
      part.values.insert(part.values.end(), values, values + static_cast<ptrdiff_t>(width));
    }
    if (part.rows() > 0) slice.blocks.push_back(std::move(part));
  }
  return slice;
}

}  // namespace ranklog::deliver::wandb
