#include "service/aggregate/run_config.h"

#include <algorithm>
#include <set>

namespace ranklog::aggregate {
namespace {

using model::Json;

// The last one: a job that is resumed may have another size, or be on another node.
const model::Stream* Primary(absl::Span<const model::Stream> streams) {
  const auto found = std::find_if(streams.rbegin(), streams.rend(),
                                  [](const model::Stream& stream) { return stream.primary; });
  return found == streams.rend() ? nullptr : &*found;
}

void Merge(Json& into, const Json& object) {
  if (!object.is_object()) return;
  for (const auto& [key, value] : object.items()) into[key] = value;
}

bool StatisticsOn(const model::RunSettings& settings) {
  const std::vector<std::string>& wanted = settings.rank_statistics;
  return settings.strategy != model::LogStrategy::kAll &&
         std::find(wanted.begin(), wanted.end(), "none") == wanted.end();
}

}  // namespace

Json MergeUpdates(model::Update::Kind kind, absl::Span<const model::Stream> streams,
                  absl::Span<const model::StoredUpdate> updates) {
  std::set<int64_t> primaries;
  for (const model::Stream& stream : streams) {
    if (stream.primary) primaries.insert(stream.id);
  }
  Json of_primary = Json::object();
  Json merged = Json::object();
  for (const model::StoredUpdate& stored : updates) {
    if (stored.update.kind != kind) continue;
    Merge(merged, stored.update.object);
    if (primaries.count(stored.stream) != 0) Merge(of_primary, stored.update.object);
  }
  Merge(merged, of_primary);
  return merged;
}

Json RunConfig(const model::Run& run, absl::Span<const model::Stream> streams,
               absl::Span<const model::StoredUpdate> updates) {
  Json config = MergeUpdates(model::Update::Kind::kConfig, streams, updates);
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
  if (!StatisticsOn(run.settings) || streams.empty()) return config;

  const model::Identity& identity = (primary != nullptr ? *primary : streams.back()).identity;
  std::set<uint32_t> ranks;  // but those of a time when there were more
  for (const model::Stream& stream : streams) {
    if (identity.world_size == 0 || stream.key.rank < identity.world_size) {
      ranks.insert(stream.key.rank);
    }
  }
  Json over = Json::object();
  over["ranks"] = ranks;
  over["of"] = identity.world_size;
  over["node"] = identity.node;
  // What a rank set under our name, if it is no object, gives way.
  if (!config.contains("ranklog") || !config["ranklog"].is_object()) {
    config["ranklog"] = Json::object();
  }
  config["ranklog"]["statistics_over"] = std::move(over);
  return config;
}

}  // namespace ranklog::aggregate
