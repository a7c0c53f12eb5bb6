// What a real daemon reports to Prometheus. S38.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "service/base/clock.h"
#include "tests/integration/node.h"
#include "tests/support/absent.h"
#include "tests/support/dead_port.h"
#include "tests/support/fake_wandb.h"

namespace ranklog::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json Status(const Node& node) {
  const Finished status = RunToEnd({RANKLOG_CLI, "status", "--json", "--address", node.address()});
  return nlohmann::json::parse(status.output);
}

// Returns the answer of the server at 127.0.0.1:`port` to GET /metrics, with its header; empty if
// it does not answer.
std::string Get(int port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  std::string answer;
  const std::string request = "GET /metrics HTTP/1.0\r\n\r\n";
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      send(fd, request.data(), request.size(), MSG_NOSIGNAL) > 0) {
    char buffer[4096];
    for (ssize_t size = 0; (size = read(fd, buffer, sizeof buffer)) > 0;) {
      answer.append(buffer, static_cast<size_t>(size));
    }
  }
  close(fd);
  return answer;
}

int PortOf(const Node& node) {
  const std::string url = Status(node)["daemon"]["metrics_url"];
  EXPECT_THAT(url, ::testing::MatchesRegex("http://127.0.0.1:[0-9]+/metrics"));
  int port = 0;
  EXPECT_TRUE(absl::SimpleAtoi(url.substr(17, url.find('/', 17) - 17), &port));
  return port;
}

// Returns the value of a metric by its full name and labels; -1 if it does not exist.
double ValueOf(const std::string& text, const std::string& metric) {
  const size_t at = text.find("\n" + metric + " ");
  double value = -1;
  if (at == std::string::npos) return value;
  const size_t begin = at + metric.size() + 2;
  EXPECT_TRUE(absl::SimpleAtod(text.substr(begin, text.find('\n', begin) - begin), &value));
  return value;
}

// Any user of the node may open such connections. Prometheus waits for ten seconds.
TEST(MetricsTest, SilentConnectionsDoNotDelayScrapes) {
  Node node({"--metrics-port", "0"});
  node.Start();
  const int port = PortOf(node);
  std::vector<int> silent;
  for (int i = 0; i < 4; ++i) {
    silent.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<uint16_t>(port));
    ASSERT_EQ(connect(silent.back(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
  }
  const absl::Time begin = SteadyNow();
  EXPECT_THAT(Get(port), HasSubstr("ranklog_ranks 0"));
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(3));
  for (const int fd : silent) close(fd);
}

TEST(MetricsTest, RowsAreCountedAtEachStage) {
  FakeWandb wandb;
  Node node({"--metrics-port", "0"});
  node.Start();
  const int port = PortOf(node);
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"500"}, WandbAt(wandb.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  const std::string delivered = "ranklog_rows_delivered_total{destination=\"wandb\"}";
  std::string text;
  // Each loop counts its rows after their commit. The next loop may already have them.
  ASSERT_TRUE(WaitFor([&] {
    text = Get(port);
    return ValueOf(text, delivered) == 500 && ValueOf(text, "ranklog_rows_made_total") == 500;
  })) << text;
  EXPECT_THAT(text, StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(ValueOf(text, "ranklog_rows_received_total"), 500);
  EXPECT_EQ(ValueOf(text, "ranklog_queue_rows{destination=\"wandb\"}"), 0);
  EXPECT_EQ(ValueOf(text, "ranklog_rows_lost{reason=\"ring_full\"}"), 0);
  EXPECT_GE(ValueOf(text, "ranklog_delivery_exchange_seconds_count{destination=\"wandb\"}"), 2);
  EXPECT_GE(ValueOf(text, "ranklog_store_commit_seconds_count"), 1);
  EXPECT_GT(ValueOf(text, "ranklog_disk_free_bytes"), 0);
  EXPECT_GT(ValueOf(text, "ranklog_store_bytes"), 0);
  EXPECT_GT(ValueOf(text, "process_resident_memory_bytes"), 1 << 20);
  EXPECT_GT(ValueOf(text, "process_open_fds"), 5);

  SKIP_WITHOUT(InPath("promtool"), "promtool");
  const TempDir dir;
  std::ofstream(dir.File("text")) << text.substr(text.find("\r\n\r\n") + 4);
  const Finished checked = RunToEnd({"sh", "-c", "promtool check metrics < " + dir.File("text")});
  EXPECT_EQ(checked.code, 0) << checked.output;
  EXPECT_EQ(checked.output, "");
}

TEST(MetricsTest, QueueHasRowsBytesAndAge) {
  const DeadPort nobody(DeadPort::kRefuses);
  Node node({"--metrics-port", "0"});
  node.Start();
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"300"}, WandbAt(nobody.url()));
  ASSERT_EQ(rank.Wait(), 0) << rank.Output();
  const int port = PortOf(node);
  std::string text;
  ASSERT_TRUE(WaitFor([&] {
    text = Get(port);
    return ValueOf(text, "ranklog_queue_rows{destination=\"wandb\"}") == 300 &&
           ValueOf(text, "ranklog_delivery_errors_total{destination=\"wandb\"}") > 0;
  })) << text;
  EXPECT_GT(ValueOf(text, "ranklog_queue_bytes{destination=\"wandb\"}"), 300);
  EXPECT_GT(ValueOf(text, "ranklog_queue_age_seconds{destination=\"wandb\"}"), 0);
  EXPECT_EQ(ValueOf(text, "ranklog_rows_delivered_total{destination=\"wandb\"}"), 0);
  EXPECT_EQ(ValueOf(text, "ranklog_deliveries_failing"), 1);
}

// Each counter of `status` has a metric; otherwise no dashboard would show it.
TEST(MetricsTest, EachCounterOfStatusIsExported) {
  Node node({"--metrics-port", "0"});
  node.Start();
  const auto counters = Status(node)["daemon"]["counters"];
  std::ifstream source(METRICS_SOURCE);
  std::ostringstream names;
  names << source.rdbuf();
  ASSERT_GT(counters.size(), 30u);
  for (const auto& [name, value] : counters.items()) {
    EXPECT_THAT(names.str(), HasSubstr(absl::StrCat("{\"", name, "\", ")));
  }
}

TEST(MetricsTest, PortInUseDisablesOnlyMetrics) {
  const DeadPort taken(DeadPort::kListens);
  Node node({"--metrics-port", std::to_string(taken.number())});
  node.Start();
  EXPECT_THAT(node.Log(), ContainsRegex("error cannot serve metrics at 127.0.0.1:[0-9]+"));
  EXPECT_EQ(Status(node)["daemon"]["metrics_url"], "");
  ChildProcess rank = node.StartRank("job", 0, 0, 1, 1, {"10"});
  EXPECT_EQ(rank.Wait(), 0) << rank.Output();
}

}  // namespace
}  // namespace ranklog::testing
