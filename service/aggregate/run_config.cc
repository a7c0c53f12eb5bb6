#include "service/aggregate/run_config.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/model/rank_statistics.h"

namespace ranklog::aggregate {
namespace {

using model::Json;

// The last primary stream: a resumed job may have another size, or be on another node.
const model::Stream* Primary(absl::Span<const model::Stream> streams) {
  const auto found = std::find_if(streams.rbegin(), streams.rend(),
                                  [](const model::Stream& stream) { return stream.primary; });
  return found == streams.rend() ? nullptr : &*found;
}

// Visits the fields of all items of one kind, first all of them, then those of the primary again.
// So the last visit of each key has its effective value. fn(key, value, item). Leaves out values
// that were set before another one that arrived earlier.
template <typename Fn>
void ForEachField(model::Item::Kind kind, absl::Span<const model::Stream> streams,
                  absl::Span<const model::StoredItem> items, Fn&& fn) {
  std::set<int64_t> primaries;
  std::map<int64_t, std::string> boots;  // by stream
  for (const model::Stream& stream : streams) {
    if (stream.primary) primaries.insert(stream.id);
    boots[stream.id] = stream.identity.boot_id;
  }
  for (const bool again : {false, true}) {
    std::map<std::string, std::pair<std::string, int64_t>> latest;  // boot and time, by key
    for (const model::StoredItem& stored : items) {
      const model::Item& item = stored.item;
      if (item.kind != kind || !item.object.is_object()) continue;
      if (again && primaries.count(stored.stream) == 0) continue;
      const std::string& boot = boots[stored.stream];
      for (const auto& [key, value] : item.object.items()) {
        auto& [last_boot, last_us] = latest[key];
        const int64_t called_us = item.CalledAt(key);
        const bool earlier = called_us < last_us && boot == last_boot && !boot.empty();
        if (earlier && called_us > 0) continue;
        last_boot = boot;
        last_us = called_us;
        fn(key, value, item);
      }
    }
  }
}

// The ranks of each node as a text, such as "0-7,16": short for thousands of ranks.
Json RanksByNode(absl::Span<const model::Stream> streams, const std::set<uint32_t>& ranks) {
  std::map<std::string, std::set<uint32_t>> nodes;
  for (const model::Stream& stream : streams) {
    if (ranks.contains(stream.key.rank)) nodes[stream.identity.node].insert(stream.key.rank);
  }
  Json by_node = Json::object();
  for (const auto& [node, of_node] : nodes) {
    std::string text;
    for (auto rank = of_node.begin(); rank != of_node.end();) {
      const uint32_t first = *rank;
      uint32_t last = first;
      while (++rank != of_node.end() && *rank == last + 1) last = *rank;
      absl::StrAppend(&text, text.empty() ? "" : ",", first);
      if (last > first) absl::StrAppend(&text, "-", last);
    }
    by_node[node] = text;
  }
  return by_node;
}

}  // namespace

std::vector<SummaryValue> SummaryValues(absl::Span<const model::Stream> streams,
                                        absl::Span<const model::StoredItem> items) {
  std::vector<SummaryValue> values;
  std::map<std::string, size_t> index;
  ForEachField(model::Item::Kind::kSummary, streams, items,
               [&](const std::string& key, const Json& value, const model::Item& item) {
                 const auto [found, is_new] = index.try_emplace(key, values.size());
                 if (is_new) values.emplace_back().key = key;
                 values[found->second].value = value;
                 values[found->second].before_step = item.BeforeStepOf(key);
               });
  return values;
}

Json RunConfig(const model::Run& run, absl::Span<const model::Stream> streams,
               absl::Span<const model::StoredItem> items) {
  Json config = Json::object();
  ForEachField(
      model::Item::Kind::kConfig, streams, items,
      [&config](const std::string& key, const Json& value, const auto&) { config[key] = value; });
  if (run.settings.imported) return config;
  const auto add = [&config](const char* key, Json value) {
    if (!config.contains(key)) config[key] = std::move(value);
  };
  const model::Stream* const primary = Primary(streams);
  if (primary != nullptr) {
    add("rank", primary->key.rank);
    add("local_rank", primary->identity.local_rank);
    add("world_size", primary->identity.world_size);
    add("node", primary->identity.node);
  }
  if (!model::RankStatistics::OfRun(run.settings).any() || streams.empty()) return config;

  const model::Identity& identity = (primary != nullptr ? *primary : streams.back()).identity;
  std::set<uint32_t> ranks;  // without those from a time with more ranks
  for (const model::Stream& stream : streams) {
    if (identity.world_size == 0 || stream.key.rank < identity.world_size) {
      ranks.insert(stream.key.rank);
    }
  }
  Json over = Json::object();
  const bool joined = std::any_of(streams.begin(), streams.end(),
                                  [](const model::Stream& stream) { return !stream.peer.empty(); });
  if (!joined) over["ranks"] = ranks;
  over["of"] = identity.world_size;
  over[joined ? "nodes" : "node"] = joined ? RanksByNode(streams, ranks) : Json(identity.node);
  // A value that a rank set under our name is replaced if it is not an object.
  if (!config.contains("ranklog") || !config["ranklog"].is_object()) {
    config["ranklog"] = Json::object();
  }
  config["ranklog"]["statistics_over"] = std::move(over);
  return config;
}

Json RunMetadata(const model::Run& run, absl::Span<const model::Stream> streams,
                 absl::Span<const model::StoredItem> items) {
  if (run.settings.no_metadata) return Json::object();
  std::set<int64_t> primaries;
  for (const model::Stream& stream : streams) {
    if (stream.primary) primaries.insert(stream.id);
  }
  for (auto stored = items.rbegin(); stored != items.rend(); ++stored) {
    const model::Item& item = stored->item;
    if (item.kind != model::Item::Kind::kMetadata || !item.object.is_object()) continue;
    if (primaries.count(stored->stream) > 0) return item.object;
  }
  return Json::object();
}

bool IsPreempting(absl::Span<const model::Stream> streams,
                  absl::Span<const model::StoredItem> items) {
  uint32_t attempt = 0;
  for (const model::Stream& stream : streams) attempt = std::max(attempt, stream.attempt);
  std::set<int64_t> newest;
  for (const model::Stream& stream : streams) {
    if (stream.attempt == attempt) newest.insert(stream.id);
  }
  return std::any_of(items.begin(), items.end(), [&](const model::StoredItem& stored) {
    return stored.item.kind == model::Item::Kind::kPreempting && newest.count(stored.stream) > 0;
  });
}

}  // namespace ranklog::aggregate
