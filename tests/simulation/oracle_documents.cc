// The part of Oracle that judges a run's config and summary at the tracker.

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/simulation/number.h"
#include "tests/simulation/oracle.h"

namespace ranklog::simulation {
namespace {

constexpr char kRowsLost[] = "ranklog/rows_lost";

// For a value that a ring set: the least is what the daemon acknowledged, the most is what was
// taken. They are equal unless the ring was lost with its node.
struct Range {
  Range(const RingRecord& ring, const std::string& key)
      : least(ring.ValueOf(key, ring.due_items())), most(ring.ValueOf(key, ring.items.size())) {}
  bool has(int64_t value) const { return value >= least && value <= most; }

  int64_t least;
  int64_t most;
};

}  // namespace

std::string RingRecord::ConfigKey(int64_t value) const {
  const int64_t key = value % kKeys;
  // Some items fill most of the half of the ring that an item may take.
  return absl::StrCat("c", rank, ".", absl::Hex(incarnation), ".", key,
                      std::string(key == 1 ? 24 << 10 : 0, 'x'));
}

std::string RingRecord::SummaryKey(int64_t value) const {
  return absl::StrCat("s", rank, ".", absl::Hex(incarnation), ".", value % kKeys);
}

int64_t RingRecord::ValueOf(const std::string& key, uint64_t count) const {
  int64_t value = -1;
  for (uint64_t i = 0; i < std::min<uint64_t>(count, items.size()); ++i) {
    if (items[i].key == key) value = items[i].value;
  }
  return value;
}

// Each item is in the store once, and has the effect that it and those before it had in the ring.
void Oracle::JudgeItems(storage::StoreReader& reader, const model::Stream& stream,
                        const RingRecord& ring) {
  const std::string who = absl::StrCat("rank ", ring.rank, " thread ", ring.thread, ": ");
  if (stream.durable_item < ring.due_items() || stream.durable_item > ring.items.size()) {
    return Wrong(who, stream.durable_item, " items are durable; made ", ring.items.size(),
                 ", acknowledged ", ring.acknowledged_items);
  }
  if (stream.lost_items > 0) Wrong(who, stream.lost_items, " items are counted as lost");
  if (!ring.lost_with_node && stream.losses.items != ring.refused_items) {
    Wrong(who, ring.refused_items, " items were refused, ", stream.losses.items, " are counted");
  }
  const auto items = reader.Items(stream.run, 0);
  if (!items.ok()) return Wrong(who, items.status().ToString());
  uint64_t count = 0;
  for (const model::StoredItem& stored : *items) {
    if (stored.stream != stream.id) continue;
    count += stored.item.count;
    if (stored.item.seq >= 1 && stored.item.seq <= ring.items.size() &&
        ring.items[stored.item.seq - 1].upload != nullptr) {
      continue;  // JudgeUploads() judges what arrives of it
    }
    for (const auto& [key, value] : stored.item.object.items()) {
      if (ring.ValueOf(key, stored.item.seq) == value) continue;
      Wrong(who, "item ", stored.item.seq, " sets ", key, " to ", value.dump());
    }
  }
  if (count != stream.durable_item) {
    Wrong(who, count, " of ", stream.durable_item, " items are in the store");
  }
}

void Oracle::JudgeConfig(const std::vector<model::Stream>& streams,
                         const testing::WandbServer::Run& shown) {
  const nlohmann::json config = testing::ParseExtendedJson(shown.config);
  for (const model::Stream& stream : streams) {
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || !stream.peer.empty()) continue;  // items stay on their node
    for (int64_t i = 0; i < RingRecord::kKeys; ++i) {
      const std::string key = ring->ConfigKey(i);
      const Range due(*ring, key);
      int64_t value = -1;
      if (config.is_object() && config.contains(key))
        value = config[key].value("value", int64_t{-2});
      if (due.has(value)) continue;
      Wrong(shown.run_id, ": config ", key, " is ", value, " at the tracker; set to ", due.most,
            ", acknowledged ", due.least);
    }
  }
}

// Returns the last value of each key, with the members that every line has.
Oracle::Line Oracle::SummaryOfLines() const {
  Line due;
  for (const Line& line : lines_) {
    for (const auto& [key, value] : line) due[key] = value;
  }
  return due;
}

Oracle::Line Oracle::SummaryOfLoss() const {
  std::vector<double> losses;
  for (const Line& line : lines_) {
    const auto loss = line.find("loss");
    if (loss != line.end()) losses.push_back(NumberOf(loss->second));
  }
  Line due;
  if (losses.empty()) return due;
  double sum = 0;
  for (double loss : losses) sum += loss;  // exact, since the values are eighths
  due["min"] = absl::StrCat(*std::min_element(losses.begin(), losses.end()));
  due["max"] = absl::StrCat(*std::max_element(losses.begin(), losses.end()));
  due["first"] = absl::StrCat(losses.front());
  due["last"] = absl::StrCat(losses.back());
  due["mean"] = nlohmann::json(sum / static_cast<double>(losses.size())).dump();
  return due;
}

void Oracle::JudgeSummary(const std::vector<model::Stream>& streams,
                          const model::Delivery& delivery, const testing::WandbServer::Run& shown) {
  Line due = SummaryOfLines();
  const auto poisoned = [](const auto& member) { return member.second == "\"poison"; };
  if (std::any_of(due.begin(), due.end(), poisoned)) return;  // the tracker refuses it
  Line summary;
  if (!shown.summary.empty() && !ParseLine(shown.summary, &summary)) {
    return Wrong(shown.run_id, ": no summary: ", shown.summary);
  }
  uint64_t lost = delivery.refused_rows;
  bool defined = false;         // the definition must be there
  bool may_be_defined = false;  // it was taken, but may be lost with its node
  for (const model::Stream& stream : streams) {
    lost += stream.losses.total() + stream.late_rows;
    const RingRecord* const ring = RingOf(stream);
    if (ring == nullptr || !stream.peer.empty()) continue;
    defined |= ring->ValueOf("", ring->due_items()) > 0;
    may_be_defined |= ring->ValueOf("", ring->items.size()) > 0;
    for (int64_t i = 0; i < RingRecord::kKeys; ++i) {
      const std::string key = ring->SummaryKey(i);
      const Range set(*ring, key);
      const auto value = summary.find(key);
      const auto there =
          value == summary.end() ? -1 : static_cast<int64_t>(NumberOf(value->second));
      if (!set.has(there)) {
        Wrong(shown.run_id, ": summary ", key, " is ", there, " and not ", set.most);
      }
      summary.erase(key);
    }
  }
  if (lost > 0) due[kRowsLost] = absl::StrCat(lost);
  for (const char* of_the_end : {"_runtime", "_wandb", "ranklog/end"}) {
    due.erase(of_the_end);
    summary.erase(of_the_end);
  }
  const auto loss = due.find("loss");
  if (loss != due.end() && (defined || (may_be_defined && summary["loss"].substr(0, 1) == "{"))) {
    Line figures;
    const Line due_figures = SummaryOfLoss();
    bool same = ParseLine(summary["loss"], &figures) && figures.size() == due_figures.size();
    for (const auto& [key, value] : due_figures) same = same && SameValue(figures[key], value);
    if (!same) Wrong(shown.run_id, ": the summary's loss is ", summary["loss"]);
    summary.erase("loss");
    due.erase(loss);
  }
  for (const auto& [key, value] : due) {
    const auto found = summary.find(key);
    if (found != summary.end() && SameValue(value, found->second)) continue;
    Wrong(shown.run_id, ": summary ", key, " is ",
          found == summary.end() ? "nothing" : found->second, ", and not ", value);
  }
  for (const auto& [key, value] : summary) {
    // What the summary had when this store took the run over stays.
    const auto before = delivery.cursor.find("summary_before");
    if (before != delivery.cursor.end() && before->is_object() && before->contains(key)) continue;
    if (due.count(key) == 0) Wrong(shown.run_id, ": summary ", key, " is nobody's");
  }
}

}  // namespace ranklog::simulation
