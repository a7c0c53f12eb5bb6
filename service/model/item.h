// An item: anything of a run that is not a row. Each stream numbers its items from 1.

#ifndef SERVICE_MODEL_ITEM_H_
#define SERVICE_MODEL_ITEM_H_

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "service/model/console_line.h"
#include "service/model/ordered_object.h"

namespace ranklog::model {

// A config or summary value, or an object of them. Preserves NaN and infinities, distinguishes
// integers from floats, and keeps the order of keys. Stored as CBOR, never by dump(), which would
// turn NaN into null.
using Json = nlohmann::basic_json<OrderedObject>;

// How charts and the summary treat a metric.
struct MetricDefinition {
  std::string name;  // with a trailing *, it is a glob
  std::string step_metric;
  bool step_sync = true;
  bool hidden = false;
  std::vector<std::string> summary;  // any of min max mean last first best none
  std::string goal;                  // "", minimize, maximize

  friend bool operator==(const MetricDefinition&, const MetricDefinition&) = default;
};

// The effect of a rank's call that is not Log(), such as Config() or Alert(), the facts of its process, or several merged
// ones.
struct Item {
  // kUnreadable: no content. It takes its place in the stream, and counts among the lost items.
  // kMetadata: facts of the process, which belong neither to the config nor to the summary.
  // kPreempting: no content. The process said that it is about to be preempted.
  // kAlert, kArtifact, kRunFile: proto/items.md describes their members. Never merged.
  // kConsole: never merged, and not stored as an item: its lines have their own table.
  enum class Kind {
    kUnreadable = 0,
    kConfig = 1,
    kSummary = 2,
    kMetric = 3,
    kMetadata = 4,
    kPreempting = 5,
    kAlert = 6,
    kArtifact = 7,
    kRunFile = 8,
    kConsole = 100  // never in the store, so its number is free
  };

  uint64_t seq = 0;        // of the last merged item
  uint64_t count = 1;      // of items that were merged into this one
  int64_t time_us = 0;     // Unix time of the call
  uint64_t after_row = 0;  // seq of the stream's last row before the call
  Kind kind = Kind::kConfig;
  Json object{};  // all but kMetric; if merged, by top-level key
  // kSummary: rows of this step and above came later than the values, rows below came before.
  // `before_steps` has the keys for which another step applies.
  int64_t before_step = std::numeric_limits<int64_t>::max();
  std::map<std::string, int64_t> before_steps{};
  MetricDefinition metric{};           // kMetric
  std::vector<ConsoleLine> console{};  // kConsole
  // When the call was made, in microseconds since the boot of the rank's node; 0: unknown. Of two
  // values of a key that ranks of one boot set, the one of the later call counts, although the other
  // may arrive later. `called_us_of` has the keys for which another time applies.
  int64_t called_us = 0;
  std::map<std::string, int64_t> called_us_of{};

  // Each such item has an effect of its own, which no later one replaces.
  bool IsSingle() const { return kind == Kind::kAlert || IsUpload(); }
  bool IsUpload() const { return kind == Kind::kArtifact || kind == Kind::kRunFile; }
  // An upload: the files that were staged for it.
  struct StagedFile {
    std::string name;
    uint64_t bytes = 0;
  };
  std::vector<StagedFile> StagedFiles() const;
  int64_t BeforeStepOf(const std::string& key) const;
  int64_t CalledAt(const std::string& key) const;

  // Merges a later item of the stream into this one, which then has the effect of both. False, and
  // no change: the two cannot be merged. Config and summary are merged with their own kind. A
  // definition is merged only with an equal one. Alerts, artifacts and files are never merged.
  bool Absorb(const Item& later);
};

// An item in the store.
struct StoredItem {
  int64_t id = 0;
  int64_t stream = 0;
  Item item;
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_ITEM_H_
