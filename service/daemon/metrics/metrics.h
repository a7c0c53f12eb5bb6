// The daemon's metrics for Prometheus. README.md in deploy/grafana lists the names, which are an
// interface.

#ifndef SERVICE_DAEMON_METRICS_METRICS_H_
#define SERVICE_DAEMON_METRICS_METRICS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "service/base/duration_histogram.h"
#include "service/daemon/metrics/monitor.h"
#include "service/pipeline/delivery/delivery_totals.h"
#include "service/storage/store_reader.h"

namespace ranklog::daemon {

// The values at one moment.
struct MetricValues {
  std::string version;
  int64_t start_time_us = 0;                 // Unix time
  std::map<std::string, uint64_t> counters;  // by their names in `ranklog status --json`
  uint64_t streams = 0;  // attached streams; `ranks` and `jobs` also count attached ones
  uint64_t ranks = 0;
  uint64_t jobs = 0;
  DurationHistogram commit_time;
  std::map<std::string, pipeline::DeliveryTotals::Destination> destinations;  // by kind
  Monitor::View monitor;
  // From the store, over all its runs.
  std::vector<storage::Queue> queues;
  model::Losses losses;
  // The last system metrics of the node: name and value, as in a run's samples.
  std::vector<std::pair<std::string, double>> system;
  // From the process.
  double cpu_seconds = 0;
  uint64_t resident_bytes = 0;
  uint64_t open_files = 0;
  uint64_t max_files = 0;
};

// Sets the figures of this process.
void AddProcess(MetricValues* figures);

// The text that MetricsServer answers. For tests, which need no port and no HTTP client with it.
std::string MetricsText(const MetricValues& figures);

// Answers `GET /metrics` on loopback, on its own threads. Any user of the node may read them. The
// answer contains numbers, kinds of destinations and versions, but no names of runs.
class MetricsServer {
 public:
  // `port` 0 selects any free port. `figures` is called for each request, on a thread of the
  // server.
  //   kUnavailable  the port is in use or not permitted
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(
      int port, std::function<MetricValues()> figures);
  ~MetricsServer();
  std::string url() const;

 private:
  struct Parts;
  explicit MetricsServer(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_METRICS_METRICS_H_
