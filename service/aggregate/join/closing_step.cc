#include "service/aggregate/join/closing_step.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace ranklog::aggregate {
namespace {

const std::vector<std::string> kNoKeys;

}  // namespace

void ClosingStep::Gather(int64_t step, const StreamRows& stream) {
  int64_t time_us = kNoStep;
  for (size_t i = 0; i < stream.rows.size() && stream.rows[i].step == step; ++i) {
    const OpenRow& row = stream.rows[i];
    if (row.dropped) continue;
    step_rows_.push_back({stream.index, row.shape, stream.rank, stream.primary,
                          row.width == 0 ? &kNoKeys : &stream.shapes[row.shape],
                          stream.rows.values(row)});
    open_rows_.push_back(&row);
    times_us_.push_back(time_us = std::max(time_us, row.time_us));
  }
}

// Sorts the rows from `begin` on by rank, then by time. If threads or forked children of a rank
// logged the same key, the last value counts.
void ClosingStep::SortByTime(size_t begin) {
  order_.resize(step_rows_.size());
  std::iota(order_.begin(), order_.end(), size_t{0});
  const auto first = order_.begin() + static_cast<ptrdiff_t>(begin);
  const auto before = [this](size_t a, size_t b) {
    return std::tie(step_rows_[a].rank, times_us_[a]) < std::tie(step_rows_[b].rank, times_us_[b]);
  };
  if (std::is_sorted(first, order_.end(), before)) return;  // almost always
  std::stable_sort(first, order_.end(), before);
  sorted_step_rows_.clear();
  sorted_open_rows_.clear();
  for (const size_t i : order_) {
    sorted_step_rows_.push_back(step_rows_[i]);
    sorted_open_rows_.push_back(open_rows_[i]);
  }
  step_rows_.swap(sorted_step_rows_);
  open_rows_.swap(sorted_open_rows_);
}

// The texts of the step's primary rows. A later value of a key replaces an earlier one, whether
// text or number. Adds the keys whose numbers were replaced to `masked`.
std::vector<model::Text> ClosingStep::MergeTexts(std::set<std::string>* masked) const {
  // By first appearance; null: a number has taken its place.
  std::vector<const model::Text*> latest;
  absl::flat_hash_map<absl::string_view, size_t> places;  // in `latest`
  for (size_t i = 0; i < primary_rows_; ++i) {
    for (const std::string& key : *step_rows_[i].keys) {
      if (places.empty()) break;
      const auto text = places.find(key);
      if (text == places.end()) continue;
      latest[text->second] = nullptr;
      places.erase(text);
    }
    if (open_rows_[i]->texts == nullptr) continue;
    for (const model::Text& text : *open_rows_[i]->texts) {
      const auto [place, is_new] = places.try_emplace(text.key, latest.size());
      if (is_new) latest.push_back(nullptr);
      latest[place->second] = &text;
    }
  }
  for (size_t i = 0; i < primary_rows_; ++i) {
    for (const std::string& key : *step_rows_[i].keys) {
      if (places.contains(key)) masked->insert(key);
    }
  }
  std::vector<model::Text> texts;
  for (const model::Text* text : latest) {
    if (text != nullptr) texts.push_back(*text);
  }
  return texts;
}

void ClosingStep::Close(int64_t step, const std::vector<StreamRows*>& primaries,
                        const std::vector<StreamRows*>& others, JoinPlanner& planner,
                        BatchBuilder& builder) {
  step_rows_.clear();
  open_rows_.clear();
  times_us_.clear();
  primary_rows_ = 0;
  const StreamRows* source = nullptr;
  for (const StreamRows* stream : primaries) {
    Gather(step, *stream);
    if (step_rows_.size() > primary_rows_) source = stream;
    primary_rows_ = step_rows_.size();
  }
  if (primaries.size() > 1) SortByTime(0);
  for (const StreamRows* stream : others) Gather(step, *stream);
  if (others.size() > 1) SortByTime(primary_rows_);

  bool any_text = false;
  bool counted = true;
  for (size_t i = 0; i < primary_rows_; ++i) {
    any_text |= open_rows_[i]->texts != nullptr;
    counted &= open_rows_[i]->counted;
  }
  std::set<std::string> masked;
  std::vector<model::Text> texts;
  if (any_text) texts = MergeTexts(&masked);

  const JoinPlan& plan = planner.PlanFor(step_rows_, masked);
  const OpenRow& last = *open_rows_[primary_rows_ - 1];
  BatchBuilder::Kind kind{plan.shape, counted};
  const size_t logged_texts = last.texts == nullptr ? 0 : last.texts->size();
  // With one row, a value or text is missing only if its key is there twice.
  if (primary_rows_ == 1 && last.keeps_step && plan.copied.size() == last.width &&
      texts.size() == logged_texts) {
    kind.source = source;
    kind.added = static_cast<uint32_t>(plan.width - plan.copied.size());
  }
  plan.Fill(step_rows_, builder.AddRow(kind, last.seq, plan.width, step, last.time_us));
  for (model::Text& text : texts) builder.AddText(std::move(text));
}

}  // namespace ranklog::aggregate
