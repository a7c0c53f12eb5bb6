#include "service/daemon/metrics/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/dead_port.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::daemon {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// Figures of a daemon that delivered something to W&B, and has more to deliver.
MetricValues SomeFigures() {
  MetricValues figures;
  figures.version = "1.2.3";
  figures.counters = {{"ingest.rows", 70}, {"ingest.refused_shapes", 2}, {"store.failing", 1}};
  figures.ranks = 8;
  auto& wandb = figures.destinations["wandb"];
  wandb.delivered_rows = 40;
  wandb.refused_rows = 3;
  wandb.errors = 5;
  wandb.last_success = absl::FromUnixSeconds(1700000000);
  wandb.exchange_time.Add(absl::Milliseconds(200));
  wandb.exchange_time.Add(absl::Minutes(2));
  figures.queues.push_back({"wandb", 27, 2700, absl::ToUnixMicros(absl::Now() - absl::Hours(1))});
  figures.losses.ring_full = 4;
  AddProcess(&figures);
  return figures;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Returns the names that a query may use. A histogram has _bucket, _sum and _count.
std::set<std::string> NamesOf(const std::string& text) {
  std::set<std::string> names;
  for (const std::string& line : LinesOf(text)) {
    if (line.empty() || line[0] == '#') continue;
    names.insert(line.substr(0, line.find_first_of("{ ")));
  }
  return names;
}

// A real daemon has all counters; these are the counters of metrics.cc.
MetricValues AllFigures() {
  MetricValues figures = SomeFigures();
  const std::regex counter("\\{\"([a-z]+\\.[a-z_]+)\", +\"ranklog_");
  const std::string source = testing::FileContent(METRICS_SOURCE);
  for (std::sregex_iterator found(source.begin(), source.end(), counter), end; found != end;
       ++found) {
    figures.counters[(*found)[1]] = 1;
  }
  return figures;
}

TEST(MetricsTest, SamplesHaveTypesUnitsAndLabels) {
  const auto lines = LinesOf(MetricsText(SomeFigures()));
  for (const char* line :
       {"# TYPE ranklog_rows_received_total counter", "ranklog_rows_received_total 70",
        "ranklog_streams_refused_total{reason=\"too_many_keys\"} 2",
        "# TYPE ranklog_store_failing gauge", "ranklog_store_failing 1",
        "ranklog_rows_delivered_total{destination=\"wandb\"} 40",
        "ranklog_rows_refused_total{destination=\"wandb\"} 3",
        "ranklog_delivery_errors_total{destination=\"wandb\"} 5", "ranklog_ranks 8",
        "ranklog_rows_lost{reason=\"ring_full\"} 4", "ranklog_rows_lost{reason=\"invalid\"} 0",
        "ranklog_queue_rows{destination=\"wandb\"} 27",
        "ranklog_queue_bytes{destination=\"wandb\"} 2700",
        "ranklog_build_info{version=\"1.2.3\"} 1"}) {
    EXPECT_THAT(lines, Contains(line));
  }
  EXPECT_THAT(lines, Contains(StartsWith("ranklog_queue_age_seconds{destination=\"wandb\"} 3600")));
}

TEST(MetricsTest, BucketsOfAHistogramAreCumulative) {
  const auto lines = LinesOf(MetricsText(SomeFigures()));
  for (const char* line :
       {"# TYPE ranklog_delivery_exchange_seconds histogram",
        "ranklog_delivery_exchange_seconds_bucket{destination=\"wandb\",le=\"0.1\"} 0",
        "ranklog_delivery_exchange_seconds_bucket{destination=\"wandb\",le=\"0.25\"} 1",
        "ranklog_delivery_exchange_seconds_bucket{destination=\"wandb\",le=\"60\"} 1",
        "ranklog_delivery_exchange_seconds_bucket{destination=\"wandb\",le=\"+Inf\"} 2",
        "ranklog_delivery_exchange_seconds_count{destination=\"wandb\"} 2",
        "ranklog_delivery_exchange_seconds_sum{destination=\"wandb\"} 120.2"}) {
    EXPECT_THAT(lines, Contains(line));
  }
}

TEST(MetricsTest, EmptyTrackerQueueReportsZero) {
  MetricValues figures = SomeFigures();
  figures.queues.clear();
  const auto lines = LinesOf(MetricsText(figures));
  EXPECT_THAT(lines, Contains("ranklog_queue_rows{destination=\"wandb\"} 0"));
  EXPECT_THAT(lines, Contains("ranklog_queue_age_seconds{destination=\"wandb\"} 0"));
}

TEST(MetricsTest, NeverDeliveredHasNoTimestamp) {
  MetricValues figures;
  figures.destinations["wandb"].errors = 1;
  EXPECT_THAT(MetricsText(figures), Not(HasSubstr("last_success")));
}

TEST(MetricsTest, DocumentNamesEachMetric) {
  const std::string document = testing::FileContent(GRAFANA_DIR + std::string("/README.md"));
  for (const std::string& line : LinesOf(MetricsText(AllFigures()))) {
    if (line.rfind("# TYPE ranklog_", 0) != 0) continue;
    const std::string name = line.substr(7, line.find(' ', 7) - 7);
    EXPECT_THAT(document, HasSubstr("`" + name + "`"));
  }
}

std::vector<std::string> QueriesOf(const nlohmann::json& dashboard) {
  std::vector<std::string> queries;
  for (const auto& panel : dashboard.at("panels")) {
    for (const auto& target : panel.at("targets")) queries.push_back(target.at("expr"));
  }
  return queries;
}

TEST(MetricsTest, DashboardQueriesExportedMetrics) {
  const auto dashboard =
      nlohmann::json::parse(testing::FileContent(GRAFANA_DIR + std::string("/ranklog.json")));
  const std::set<std::string> names = NamesOf(MetricsText(AllFigures()));
  const std::regex name("(ranklog|process)_[a-z_]+");
  std::vector<std::string> queries = QueriesOf(dashboard);
  EXPECT_GT(queries.size(), 15u);
  for (const auto& variable : dashboard.at("templating").at("list")) {
    if (variable.at("type") == "query") queries.push_back(variable.at("query").at("query"));
  }
  for (const std::string& query : queries) {
    std::sregex_iterator found(query.begin(), query.end(), name);
    EXPECT_NE(found, std::sregex_iterator()) << query;
    for (; found != std::sregex_iterator(); ++found) {
      EXPECT_THAT(names, Contains(found->str())) << query;
    }
  }
}

TEST(MetricsTest, PrometheusParsesDashboardQueries) {
  SKIP_WITHOUT(testing::InPath("promtool"), "promtool");
  const testing::TempDir dir;
  nlohmann::json rules = nlohmann::json::array();
  for (const std::string& query : QueriesOf(nlohmann::json::parse(
           testing::FileContent(GRAFANA_DIR + std::string("/ranklog.json"))))) {
    rules.push_back(
        {{"record", "rule" + std::to_string(rules.size())},
         {"expr", absl::StrReplaceAll(query, {{"$__rate_interval", "5m"}, {"$instance", ".*"}})}});
  }
  std::ofstream(dir.File("rules.yml"))  // JSON is YAML
      << nlohmann::json{{"groups", {{{"name", "dashboard"}, {"rules", rules}}}}}.dump();
  const testing::Finished checked =
      testing::RunToEnd({"promtool", "check", "rules", dir.File("rules.yml")});
  EXPECT_EQ(checked.code, 0) << checked.output;
}

TEST(MetricsTest, PromtoolAcceptsTheMetrics) {
  SKIP_WITHOUT(testing::InPath("promtool"), "promtool");
  const testing::TempDir dir;
  std::ofstream(dir.File("text")) << MetricsText(AllFigures());
  const testing::Finished checked =
      testing::RunToEnd({"sh", "-c", "promtool check metrics < " + dir.File("text")});
  EXPECT_EQ(checked.code, 0) << checked.output;
  EXPECT_EQ(checked.output, "");
}

TEST(MetricsServerTest, PortInUseIsUnavailable) {
  const testing::DeadPort taken(testing::DeadPort::kListens);
  EXPECT_THAT(MetricsServer::Start(taken.number(), [] { return MetricValues(); }),
              testing::StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace ranklog::daemon
