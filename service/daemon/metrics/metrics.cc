#include "service/daemon/metrics/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/text_serializer.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace ranklog::daemon {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Maps a counter of `ranklog status` to its Prometheus name. Entries with the same name must be
// adjacent.
struct Named {
  const char* counter;
  const char* name;
  const char* help;
  const char* reason = nullptr;  // label value that distinguishes entries with the same name
  MetricType type = MetricType::Counter;
};

constexpr Named kNames[] = {
    {"accept.accepted", "ranklog_connections_accepted_total", "Connections to the socket."},
    {"accept.refused_user", "ranklog_connections_refused_total",
     "Connections that the daemon refused, by reason.", "user"},
    {"accept.refused_protocol", "ranklog_connections_refused_total", "", "protocol"},
    {"accept.descriptors", "ranklog_descriptors_received_total",
     "Descriptors of rings that ranks passed."},
    {"accept.shortages", "ranklog_descriptor_shortages_total",
     "Times that ranks had to wait because there were too few file descriptors."},
    {"accept.rebinds", "ranklog_socket_rebinds_total",
     "Times that the socket file was removed and created again."},
    {"ingest.attaches", "ranklog_attaches_total", "Streams of ranks that attached."},
    {"ingest.unreadable_items", "ranklog_items_unreadable_total",
     "Items (config, summary, metric definitions) that were dropped because they are invalid."},
    {"ingest.batches", "ranklog_batches_received_total", "Batches of rows that are durable."},
    {"ingest.rows", "ranklog_rows_received_total",
     "Rows of ranks that are durable; those that were sent again count again."},
    {"ingest.refused_messages", "ranklog_streams_refused_total",
     "Streams that the daemon ended because of a bad message, by reason.", "malformed"},
    {"ingest.refused_shapes", "ranklog_streams_refused_total", "", "too_many_keys"},
    {"ingest.refused_streams", "ranklog_streams_refused_total", "", "too_many_streams"},
    {"ingest.refused_versions", "ranklog_streams_refused_total", "", "other_version"},
    {"ingest.paused_streams", "ranklog_stream_pauses_total",
     "Times that a stream was not read because the store was behind."},
    {"ingest.unseen_rings", "ranklog_rings_unseen_total",
     "Streams whose ring could not be opened by its path."},
    {"ingest.orphans", "ranklog_rings_drained_total", "Rings of dead ranks that were drained."},
    {"ingest.orphan_rows", "ranklog_rows_drained_total", "Rows that were found in drained rings."},
    {"ingest.damaged_rings", "ranklog_rings_damaged_total",
     "Rings that could be read only in part."},
    {"ingest.left_rings", "ranklog_rings_left_total",
     "Rings that could not be read, for example of another version, and were left unchanged."},
    {"store.writes", "ranklog_store_writes_total", "Writes that were committed."},
    {"store.refused_writes", "ranklog_store_writes_refused_total",
     "Writes that the store refused."},
    {"store.commits", "ranklog_store_commits_total", "Commits, each of many writes."},
    {"store.failed_commits", "ranklog_store_commits_failed_total", "Commits that failed."},
    {"store.failing", "ranklog_store_failing",
     "1 while the daemon cannot store rows, for example on a full disk; they stay in the spools.",
     nullptr, MetricType::Gauge},
    {"store.checkpoints", "ranklog_store_checkpoints_total", "Checkpoints of SQLite's log."},
    {"store.removed_runs", "ranklog_removed_runs_total",
     "Runs that were removed after their delivery, or by a user."},
    {"store.removed_rows", "ranklog_removed_rows_total", "Rows of removed runs."},
    {"store.removed_bytes", "ranklog_removed_bytes_total",
     "Bytes within the store that these removals freed."},
    {"aggregate.live_runs", "ranklog_runs_live", "Runs that have not ended.", nullptr,
     MetricType::Gauge},
    {"aggregate.made_rows", "ranklog_rows_made_total", "Aggregated rows of runs."},
    {"aggregate.late_rows", "ranklog_rows_late_total",
     "Rows of ranks that came after their step was closed: kept, but not in their run."},
    {"aggregate.errors", "ranklog_aggregate_errors_total", "Failed aggregations of a run's rows."},
    {"deliver.steps", "ranklog_delivery_steps_total", "Steps of deliveries to trackers."},
    {"deliver.pending", "ranklog_deliveries_pending",
     "Deliveries of a run to a tracker that are not complete.", nullptr, MetricType::Gauge},
    {"deliver.failing", "ranklog_deliveries_failing", "Deliveries whose last step failed.", nullptr,
     MetricType::Gauge},
    {"deliver.dead_letters", "ranklog_dead_letters_total",
     "Records that a tracker refused; they are kept as dead letters."},
    {"deliver.set_apart", "ranklog_deliveries_set_apart",
     "Deliveries that are not tried because they crash the daemon.", nullptr, MetricType::Gauge},
    {"sample.samples", "ranklog_samples_total", "Samples of system metrics, one per job and time."},
    {"sample.dropped", "ranklog_samples_dropped_total",
     "Samples that were dropped because the store was behind."},
    {"peer.requests", "ranklog_peer_requests_total", "Requests of daemons of other nodes."},
    {"peer.rows", "ranklog_peer_rows_total", "Rows of other nodes' ranks, repeated ones included."},
    {"peer.nodes", "ranklog_peer_nodes", "Nodes whose daemons have sent rows in the last hour.",
     nullptr, MetricType::Gauge},
    {"peer.waiting_rows", "ranklog_peer_waiting_rows",
     "Rows that wait for the daemon of rank 0's node.", nullptr, MetricType::Gauge},
    {"peer.late_rows", "ranklog_peer_late_rows_total", "Rows that came too late to rank 0's node."},
    {"peer.refused_streams", "ranklog_peer_refused_streams_total",
     "Refusals of malformed rows of other nodes."},
    {"peer.refused_connections", "ranklog_peer_refused_connections_total",
     "Connections to the peer port that are not TLS, or were silent."},
};

// Collects the metric families of one scrape.
class Families {
 public:
  using Labels = std::vector<ClientMetric::Label>;

  // Metrics with the same name must be adjacent; the help text of the first one is used.
  ClientMetric& Add(MetricType type, const std::string& name, const std::string& help,
                    Labels labels = {}) {
    if (families_.empty() || families_.back().name != name) {
      families_.push_back({name, help, type, {}});
    }
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }
  template <typename Value>
  void Gauge(const std::string& name, const std::string& help, Value value, Labels labels = {}) {
    Add(MetricType::Gauge, name, help, std::move(labels)).gauge.value = static_cast<double>(value);
  }
  template <typename Value>
  void Counter(const std::string& name, const std::string& help, Value value, Labels labels = {}) {
    Add(MetricType::Counter, name, help, std::move(labels)).counter.value =
        static_cast<double>(value);
  }
  void Histogram(const std::string& name, const std::string& help, const DurationHistogram& value,
                 Labels labels = {}) {
    ClientMetric::Histogram& to =
        Add(MetricType::Histogram, name, help, std::move(labels)).histogram;
    to.sample_sum = value.sum_seconds;
    for (size_t i = 0; i < value.counts.size(); ++i) {
      to.sample_count += value.counts[i];
      const bool last = i == DurationHistogram::kBounds.size();
      to.bucket.push_back({to.sample_count, last ? std::numeric_limits<double>::infinity()
                                                 : DurationHistogram::kBounds[i]});
    }
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

void AddCounters(const MetricValues& figures, Families& to) {
  for (const Named& named : kNames) {
    const auto found = figures.counters.find(named.counter);
    if (found == figures.counters.end()) continue;
    Families::Labels labels;
    if (named.reason != nullptr) labels.push_back({"reason", named.reason});
    ClientMetric& metric = to.Add(named.type, named.name, named.help, std::move(labels));
    (named.type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
        static_cast<double>(found->second);
  }
}

// Writes each family with all kinds, one after the other.
void AddDestinations(const MetricValues& figures, Families& to) {
  const auto each = [&](const auto& add) {
    for (const auto& [kind, destination] : figures.destinations) {
      add(Families::Labels{{"destination", kind}}, destination);
    }
  };
  each([&](const auto& labels, const auto& destination) {
    to.Counter("ranklog_rows_delivered_total", "Rows that the tracker acknowledged.",
               destination.delivered_rows, labels);
  });
  each([&](const auto& labels, const auto& destination) {
    to.Counter("ranklog_rows_refused_total",
               "Rows that the tracker refused; they are kept as dead letters.",
               destination.refused_rows, labels);
  });
  each([&](const auto& labels, const auto& destination) {
    to.Counter("ranklog_delivery_errors_total", "Exchanges with the tracker that failed.",
               destination.errors, labels);
  });
  each([&](const auto& labels, const auto& destination) {
    to.Histogram("ranklog_delivery_exchange_seconds", "Duration of an exchange with the tracker.",
                 destination.exchange_time, labels);
  });
  each([&](const auto& labels, const auto& destination) {
    if (destination.last_success == absl::InfinitePast()) return;
    to.Gauge("ranklog_delivery_last_success_timestamp_seconds",
             "Time of the last successful exchange with the tracker.",
             absl::ToDoubleSeconds(destination.last_success - absl::UnixEpoch()), labels);
  });
}

// A tracker without waiting runs has no queue in the store. It gets 0, so that its time series
// continues.
void AddQueues(const MetricValues& figures, Families& to) {
  std::map<std::string, storage::Queue> queues;
  for (const auto& [kind, destination] : figures.destinations) queues[kind];
  for (const storage::Queue& queue : figures.queues) queues[queue.kind] = queue;
  const auto each = [&](const char* name, const char* help, const auto& value) {
    for (const auto& [kind, queue] : queues) {
      to.Gauge(name, help, value(queue), {{"destination", kind}});
    }
  };
  each("ranklog_queue_rows", "Rows that wait for the tracker.",
       [](const storage::Queue& queue) { return queue.rows; });
  each("ranklog_queue_bytes", "Bytes of the waiting rows in the store; estimated for a long queue.",
       [](const storage::Queue& queue) { return queue.bytes; });
  const absl::Time now = absl::Now();
  each("ranklog_queue_age_seconds", "Age of the oldest waiting row.",
       [now](const storage::Queue& queue) {
         if (queue.oldest_us == 0) return 0.0;
         return std::max(0.0, absl::ToDoubleSeconds(now - absl::FromUnixMicros(queue.oldest_us)));
       });
}

void AddLosses(const model::Losses& losses, Families& to) {
  for (const auto& [name, rows] : model::kLossReasons) {
    to.Gauge("ranklog_rows_lost",
             "Lost rows of the runs in the store, by reason; decreases when a run is removed.",
             losses.*rows, {{"reason", name}});
  }
  to.Gauge(
      "ranklog_items_refused",
      "Calls of Config, Summary and DefineMetric that ranks refused, of the runs in the store.",
      losses.items);
  to.Gauge("ranklog_values_lost",
           "Values left out of rows of the runs in the store; decreases when a run is removed.",
           losses.values);
}

std::vector<MetricFamily> FamiliesOf(const MetricValues& figures) {
  Families to;
  to.Gauge("ranklog_build_info", "Always 1; the label is the version.", 1,
           {{"version", figures.version}});
  to.Gauge("ranklog_jobs", "Jobs with an attached rank.", figures.jobs);
  to.Gauge("ranklog_ranks", "Attached ranks.", figures.ranks);
  to.Gauge("ranklog_streams", "Attached streams: one for each thread that logs.", figures.streams);
  AddCounters(figures, to);
  AddDestinations(figures, to);
  AddQueues(figures, to);
  AddLosses(figures.losses, to);
  for (const auto& [name, value] : figures.system) {
    to.Gauge("ranklog_system", "System metrics of the node, while a run is live, by name.", value,
             {{"name", name}});
  }
  to.Histogram("ranklog_store_commit_seconds", "Duration of a commit, including its writes.",
               figures.commit_time);
  to.Gauge("ranklog_store_bytes", "Size of the store's files.", figures.monitor.store_bytes);
  to.Gauge("ranklog_content_bytes", "Size of large items that are not in the store yet.",
           figures.monitor.content_bytes);
  to.Gauge("ranklog_disk_size_bytes", "Size of the store's file system.",
           figures.monitor.disk_bytes);
  to.Gauge("ranklog_disk_free_bytes",
           "Free space of the store's file system, for the daemon's user.",
           figures.monitor.disk_free_bytes);
  // The standard names of Prometheus clients.
  to.Counter("process_cpu_seconds_total", "CPU time of the daemon, user and system.",
             figures.cpu_seconds);
  to.Gauge("process_resident_memory_bytes", "Resident memory of the daemon.",
           figures.resident_bytes);
  to.Gauge("process_open_fds", "Open file descriptors.", figures.open_files);
  to.Gauge("process_max_fds", "Maximum number of open file descriptors.", figures.max_files);
  to.Gauge("process_start_time_seconds", "Start time of the daemon, as Unix time.",
           static_cast<double>(figures.start_time_us) / 1e6);
  return to.Take();
}

// Any user of the node may connect and send nothing. Such a connection blocks a thread for a
// second.
std::vector<std::string> OptionsOf(const std::string& address) {
  return {"listening_ports", address, "num_threads", "4", "request_timeout_ms", "1000"};
}

class Collector final : public prometheus::Collectable {
 public:
  explicit Collector(std::function<MetricValues()> figures) : figures_(std::move(figures)) {}
  std::vector<MetricFamily> Collect() const override { return FamiliesOf(figures_()); }

 private:
  const std::function<MetricValues()> figures_;
};

}  // namespace

void AddProcess(MetricValues* figures) {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  figures->cpu_seconds = static_cast<double>(cpu.tv_sec) + static_cast<double>(cpu.tv_nsec) / 1e9;
  uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  figures->resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", error), end;
       !error && entry != end; entry.increment(error)) {
    ++figures->open_files;
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) figures->max_files = limit.rlim_cur;
}

std::string MetricsText(const MetricValues& figures) {
  const prometheus::TextSerializer serializer;
  return serializer.Serialize(FamiliesOf(figures));
}

struct MetricsServer::Parts {
  std::shared_ptr<Collector> collector;  // the exposer holds only a weak pointer to it
  prometheus::Exposer exposer;
};

MetricsServer::MetricsServer(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
MetricsServer::~MetricsServer() = default;

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    int port, std::function<MetricValues()> figures) {
  const std::string address = absl::StrCat("127.0.0.1:", port);
  try {
    std::unique_ptr<Parts> parts(new Parts{std::make_shared<Collector>(std::move(figures)),
                                           prometheus::Exposer(OptionsOf(address))});
    parts->exposer.RegisterCollectable(parts->collector);
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(parts)));
  } catch (const std::exception&) {  // its message only says that there is no context
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics at ", address,
                     ": is the port in use? choose another one with --metrics-port"));
  }
}

std::string MetricsServer::url() const {
  return absl::StrCat("http://127.0.0.1:", parts_->exposer.GetListeningPorts().front(), "/metrics");
}

}  // namespace ranklog::daemon
