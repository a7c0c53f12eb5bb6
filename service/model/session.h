// A session: one attach of one thread of one process of one rank.

#ifndef SERVICE_MODEL_SESSION_H_
#define SERVICE_MODEL_SESSION_H_

#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "absl/types/span.h"

namespace ranklog::model {

enum class LogStrategy { kMain, kNode, kAll };
absl::string_view Name(LogStrategy strategy);  // main, node, all

// Names one ring of a rank, and the stream that carries it. Ordered, for use as a map's key.
struct StreamKey {
  std::string project;
  std::string job_id;
  uint32_t rank = 0;
  uint64_t incarnation = 0;

  friend auto operator<=>(const StreamKey&, const StreamKey&) = default;
};

// The settings of destinations, by kind and name.
using DestinationSettings = std::map<std::string, std::map<std::string, std::string>>;

struct RunSettings {
  std::string entity;
  std::string name;
  std::string group;
  std::string job_type;
  std::string notes;
  std::vector<std::string> tags;
  LogStrategy strategy = LogStrategy::kMain;
  std::vector<std::string> destinations;  // "wandb", "local"; resolved before it is stored
  // For metrics without a rule, any of mean min max std argmin argmax; empty: mean min max;
  // {"none"}: off. A rule is GLOB=NAME,NAME. See RankStatistics.
  std::vector<std::string> rank_statistics;
  std::vector<std::string> rank_statistic_rules;
  DestinationSettings destination_settings;  // also of those that the run does not go to yet
  std::string host;
  std::string program;
  std::string resume;
  int64_t start_time_us = 0;       // Unix time
  bool no_metadata = false;        // keep no facts of processes and of the machine
  bool no_system_metrics = false;  // keep no samples of the node's hardware
  std::string name_pattern;        // of the names of runs of a node or a rank; empty: the default
  // The daemon of rank 0's node, as the rank sees it: HOST or HOST:PORT, which ParseHostPort() takes.
  // Empty: unknown, or the job has one node.
  std::string home;
  // Another program logged the run, and it was imported: its values are kept as they are, so nothing
  // that Ranklog derives is added. Never set by ranks.
  bool imported = false;

  // The setting `name` of the destination `kind`; empty if it is not set.
  const std::string& Of(const std::string& kind, const std::string& name) const;

  friend bool operator==(const RunSettings&, const RunSettings&) = default;
};

struct Identity {
  uint32_t local_rank = 0;
  uint32_t world_size = 1;
  uint32_t local_world_size = 0;  // 0: unknown
  uint32_t node_rank = 0;
  std::string node;
  int64_t pid = 0;
  uint32_t thread = 0;
  std::string client_version;
  // When its process called Init(), by a clock that cannot be set, and the boot in which that clock
  // counts.
  int64_t began_us = 0;
  std::string boot_id;  // empty: unknown
};

// The start of a job that a rank belongs to. See v1::Launch in the schema.
struct Launch {
  std::string id;         // equal for the ranks of one start on one node; empty: unknown
  std::string given_id;   // the job id that the rank sent
  bool id_given = false;  // the user chose the job id
  bool restarts_ranks = false;
  uint32_t restart = 0;
  bool whole_node = false;
  std::string batch_job;
  uint32_t requeue = 0;
  std::string process;  // "PROCESS@NUMBER" of one Init(); its forked children share it
  // The launcher is outside the rank's pid namespace; `id` is valid only inside it.
  bool unseen = false;

  friend bool operator==(const Launch&, const Launch&) = default;
};

bool IsSameRank(const StreamKey& one, const StreamKey& other);

// Whether two Launch::process values belong to one process.
bool AreOfOneProcess(absl::string_view one, absl::string_view other);

struct Session {
  StreamKey stream;
  RunSettings settings;
  Identity identity;
  uint64_t first_seq = 1;   // the first row that can still come; rows before it were acknowledged
  uint64_t first_item = 1;  // the same for items
  Launch launch{};
  bool left = false;  // its process has ended; the ring was found
  // Its process joined the run by a handle: the settings and credentials of the maker count.
  bool attached = false;
  bool no_rows = false;  // it will log none
  // The node whose daemon sent it; empty: the rank itself attached.
  std::string peer{};
  // What is wrong with the settings of its destinations, for the user. {run} stands for the run.
  std::vector<std::string> mistakes{};
  std::string unnamed{};  // why its ring is not a file, and the risk; empty if it is a file
};

// OK if the session can be stored. The message of an error lists every reason.
//   kInvalidArgument   one of these holds:
//                      - the project or job id is empty, or longer than 256 bytes
//                      - the rank is outside the world, or the local rank outside the node
//                      - the node has more ranks than the world
//                      - the incarnation is 0
//                      - the first row is 0, or above 2^62
//                      - a statistic is unknown, or "none" is combined with others
//                      - a name of the launch is longer than 256 bytes
absl::Status Validate(const Session& session);

// Rows of one stream that are not in the store, and values that are not in its rows. These rows are
// the rows that the rank's Log() refused, by reason, and the acknowledged rows of an earlier store
// that was lost.
struct Losses {
  uint64_t ring_full = 0;
  uint64_t invalid = 0;
  uint64_t step_behind = 0;
  uint64_t too_large = 0;
  uint64_t after_finish = 0;
  uint64_t with_store = 0;  // set by Attach(), never by the rank
  uint64_t items = 0;       // items that the rank refused
  // Values that Log() left out of rows that it took, because the key or the value cannot be logged.
  uint64_t values = 0;

  uint64_t total() const;  // the rows
  Losses& operator+=(const Losses& more);
  friend bool operator==(const Losses&, const Losses&) = default;
};

// Every counter once. JSON, texts and metrics contain the names, so they are an interface for
// scripts; the columns of the store are lost_NAME.
struct LossCounter {
  const char* name;
  uint64_t Losses::*count;

  bool IsSetByRank() const { return count != &Losses::with_store; }
};
inline constexpr LossCounter kLossCounters[] = {{"ring_full", &Losses::ring_full},
                                                {"invalid", &Losses::invalid},
                                                {"step_behind", &Losses::step_behind},
                                                {"too_large", &Losses::too_large},
                                                {"after_finish", &Losses::after_finish},
                                                {"with_store", &Losses::with_store},
                                                {"values", &Losses::values}};
// The reasons for which rows are lost: all but the values.
inline constexpr absl::Span<const LossCounter> kLossReasons(kLossCounters,
                                                            std::size(kLossCounters) - 1);

inline uint64_t Losses::total() const {
  uint64_t sum = 0;
  for (const auto& [name, rows] : kLossReasons) sum += this->*rows;
  return sum;
}
inline Losses& Losses::operator+=(const Losses& more) {
  for (const auto& [name, count] : kLossCounters) this->*count += more.*count;
  items += more.items;
  return *this;
}

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_SESSION_H_
