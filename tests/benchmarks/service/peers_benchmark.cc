// What it costs the daemon of rank 0's node to join the ranks of many nodes: a real ranklogd, a
// rank 0 that logs by libranklog, and one process that plays the daemons of all other nodes.
//
// Each node sends the row of each of its ranks, of 50 metrics, once a second, within a quarter of
// the second, as ranks do that wait for one another.

#include <benchmark/benchmark.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "ranklog/ranklog.h"
#include "ranklog/v1/spool_layout.h"
#include "service/peer/homes.h"
#include "service/peer/tls/peer_credentials.h"
#include "service/peer/tls/peer_key.h"
#include "service/storage/store_reader.h"
#include "tests/benchmarks/figures.h"
#include "tests/support/temp_dir.h"

namespace ranklog::peer {
namespace {

using benchmarks::AtMost;
using benchmarks::SizeOf;

constexpr int kMetrics = 50;
constexpr int kWarmUp = 8;  // seconds: the ranks attach, and metrics begin to differ

[[noreturn]] void Die(const std::string& what) {
  fprintf(stderr, "%s\n", what.c_str());
  exit(1);
}

// The daemon of rank 0's node.
class Home {
 public:
  Home() {
    if (!PeerKey::Make(key_path(), absl::Now()).ok()) Die("cannot make a key");
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      execl(RANKLOGD, "ranklogd", "--state-dir", state_dir().c_str(), "--listen", address().c_str(),
            "--spool-dir", spools().c_str(), "--peer-key", key_path().c_str(), "--peer-listen",
            "127.0.0.1:47113", "--log-level", "warn", nullptr);
      _exit(127);
    }
    for (int i = 0; i < 1000 && !std::filesystem::exists(dir_.path() + "/d.sock"); ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  ~Home() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  std::string state_dir() const { return dir_.path() + "/state"; }
  std::string key_path() const { return dir_.path() + "/peer.key"; }
  std::string address() const { return "unix:" + dir_.path() + "/d.sock"; }
  std::string spools() const { return dir_.path(); }
  HostPort peer_address() const { return {"127.0.0.1", 47113}; }

  double cpu_seconds() const {
    double nanoseconds = 0;
    for (const auto& task :
         std::filesystem::directory_iterator(absl::StrCat("/proc/", pid_, "/task"))) {
      double ran = 0;
      std::ifstream(task.path() / "schedstat") >> ran;
      nanoseconds += ran;
    }
    return nanoseconds / 1e9;
  }
  double peak_rss_mib() const {
    std::ifstream file(absl::StrCat("/proc/", pid_, "/status"));
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1024;
    }
    return 0;
  }

 private:
  testing::TempDir dir_;
  pid_t pid_ = -1;
};

// Another node: its ranks have one row per step.
struct Node {
  std::unique_ptr<Homes> homes;
  int number = 0;
  std::vector<bool> attached;
  std::atomic<bool> waits{false};
  std::atomic<bool> failed{false};
};

// `restart`: how often the node's launcher has restarted its ranks.
v1::Hello HelloOf(int node, int ranks, int rank, int world, int restart) {
  v1::Hello hello;
  hello.set_protocol(v1::kProtocolVersion);
  hello.mutable_stream()->set_project("bench");
  hello.mutable_stream()->set_job_id("bench");
  hello.mutable_stream()->set_rank(static_cast<uint32_t>(rank));
  hello.mutable_stream()->set_incarnation(static_cast<uint64_t>(1000 + rank + 100'000 * restart));
  hello.mutable_settings()->set_strategy(v1::LOG_STRATEGY_MAIN);
  hello.mutable_settings()->set_start_time_us(absl::ToUnixMicros(absl::Now()));
  v1::Identity& identity = *hello.mutable_identity();
  identity.set_world_size(static_cast<uint32_t>(world));
  identity.set_local_world_size(static_cast<uint32_t>(ranks));
  identity.set_local_rank(static_cast<uint32_t>((rank - 1) % ranks));
  identity.set_node_rank(static_cast<uint32_t>(node));
  identity.set_node(absl::StrCat("node", node));
  hello.mutable_launch()->set_id(absl::StrCat("launch", node));
  hello.mutable_launch()->set_id_given(true);
  hello.mutable_launch()->set_restarts_ranks(true);
  hello.mutable_launch()->set_restart(static_cast<uint32_t>(restart));
  hello.mutable_launch()->set_process(absl::StrCat("p", rank, "@", restart));
  return hello;
}

void Fill(v1::PushedStream* pushed, int rank, int step) {
  if (step == 0) {
    v1::DefineShape& shape = *pushed->add_shape();
    shape.set_id(1);
    for (int m = 0; m < kMetrics; ++m) shape.add_keys(absl::StrCat("metric/", m));
  }
  v1::Batch& batch = *pushed->add_batch();
  batch.set_first_seq(static_cast<uint64_t>(step) + 1);
  batch.set_last_seq(static_cast<uint64_t>(step) + 1);
  v1::Block& block = *batch.add_block();
  block.set_shape(1);
  block.set_commits(true);
  block.set_counted(true);
  block.add_seq_offset(0);
  block.add_step_delta(step);
  block.add_time_delta_us(absl::ToUnixMicros(absl::Now()));
  for (int m = 0; m < kMetrics; ++m) block.add_value(rank + 0.5 * m);
  pushed->set_passed_step(step);
}

void Push(Node& node, const HostPort& address, const v1::PushRequest& request) {
  node.waits = true;
  node.homes->Push(address, request, [&node](absl::Status status, v1::PushReply reply) {
    for (const v1::PushedAnswer& answer : reply.stream()) {
      if (answer.result() != v1::PushedAnswer::TAKEN) status = absl::InternalError(answer.why());
    }
    if (!status.ok() && !node.failed.exchange(true)) {
      fprintf(stderr, "node %d: %s\n", node.number, std::string(status.message()).c_str());
    }
    node.waits = false;
  });
}

// The delay of each step: from the last node's row to the run's row in the store.
class Watcher {
 public:
  explicit Watcher(const std::string& state_dir) {
    auto reader = storage::StoreReader::Open(state_dir);
    if (!reader.ok()) Die(std::string(reader.status().message()));
    reader_ = *std::move(reader);
  }
  // Waits until the row of `step` is there.
  absl::Time SeenAt(int step) {
    for (int i = 0; i < 3000; ++i) {
      const auto run = reader_->GetRun(1);
      if (run.ok() && run->rows > static_cast<uint64_t>(step)) return absl::Now();
      absl::SleepFor(absl::Milliseconds(10));
    }
    Die("a row is never made");
  }

 private:
  std::unique_ptr<storage::StoreReader> reader_;
};

void BM_JoinedNodes(benchmark::State& state) {
  const int nodes = SizeOf(static_cast<int>(state.range(0)), 4);
  const int ranks = static_cast<int>(state.range(1));
  const int steps = kWarmUp + SizeOf(30, 2);
  const int world = 1 + nodes * ranks;
  for (auto _ : state) {
    const Home home;
    setenv("RANKLOG_ADDRESS", home.address().c_str(), 1);
    setenv("RANKLOG_SPOOL_DIR", home.spools().c_str(), 1);
    setenv("RANK", "0", 1);
    setenv("LOCAL_RANK", "0", 1);
    setenv("LOCAL_WORLD_SIZE", "1", 1);
    setenv("WORLD_SIZE", absl::StrCat(world).c_str(), 1);
    setenv("RANKLOG_RUN_ID", "bench", 1);
    Settings settings = Settings::FromEnvironment();
    settings.project = "bench";
    settings.destinations = {"local"};
    Run run = Init(settings);
    absl::StatusOr<PeerKey> key = PeerKey::Load(home.key_path());
    if (!key.ok()) Die(std::string(key.status().message()));
    std::vector<std::unique_ptr<Node>> all;
    for (int n = 1; n <= nodes; ++n) {
      Node& node = *all.emplace_back(std::make_unique<Node>());
      node.number = n;
      node.homes = std::make_unique<Homes>(
          [&key](const HostPort& address) { return MakePeerChannel(*key, address, absl::Now()); },
          absl::InfiniteDuration());
    }
    const auto wait_all = [&] {
      for (const auto& node : all) {
        while (node->waits) absl::SleepFor(absl::Milliseconds(1));
        if (node->failed) Die("a node was refused");
      }
    };
    absl::SleepFor(absl::Seconds(1));  // rank 0 has attached
    const auto attach_all = [&](int restart) {
      const absl::Time began = absl::Now();
      for (const auto& node : all) {
        v1::PushRequest request;
        request.set_protocol(v1::kProtocolVersion);
        request.set_node(absl::StrCat("node", node->number));
        request.set_sender(static_cast<uint64_t>(node->number));
        for (int r = 0; r < ranks; ++r) {
          const int rank = 1 + (node->number - 1) * ranks + r;
          v1::PushedStream& pushed = *request.add_stream();
          *pushed.mutable_hello() = HelloOf(node->number, ranks, rank, world, restart);
          *pushed.mutable_stream() = pushed.hello().stream();
        }
        Push(*node, home.peer_address(), request);
        if (node->number % 64 == 0) wait_all();  // nodes begin within seconds
      }
      wait_all();
      return absl::ToDoubleSeconds(absl::Now() - began);
    };
    state.counters["attach_s"] = attach_all(/*restart=*/0);

    std::vector<std::string> names;
    for (int m = 0; m < kMetrics; ++m) names.push_back(absl::StrCat("metric/", m));
    const std::vector<std::string_view> keys(names.begin(), names.end());
    const RowHandle row = run.Row(keys);
    const std::vector<double> values(kMetrics, 0.5);
    Watcher watcher(home.state_dir());
    std::vector<double> delays;
    double cpu = 0;
    absl::Time from;
    absl::Time next = absl::Now();
    for (int step = 0; step < steps; ++step, next += absl::Seconds(1)) {
      absl::SleepFor(next - absl::Now());
      if (step == kWarmUp) {
        cpu = home.cpu_seconds();
        from = absl::Now();
      }
      run.Log(row, values);  // without a step, so that it is closed at once
      for (const auto& node : all) {
        v1::PushRequest request;
        request.set_protocol(v1::kProtocolVersion);
        request.set_node(absl::StrCat("node", node->number));
        request.set_sender(static_cast<uint64_t>(node->number));
        for (int r = 0; r < ranks; ++r) {
          const int rank = 1 + (node->number - 1) * ranks + r;
          v1::PushedStream& pushed = *request.add_stream();
          *pushed.mutable_stream() =
              HelloOf(node->number, ranks, rank, world, /*restart=*/0).stream();
          Fill(&pushed, rank, step);
        }
        while (node->waits) absl::SleepFor(absl::Milliseconds(1));
        Push(*node, home.peer_address(), request);
        absl::SleepFor(absl::Milliseconds(250) / nodes);
      }
      const absl::Time sent = absl::Now();
      const absl::Time seen = watcher.SeenAt(step);
      if (step >= kWarmUp) delays.push_back(absl::ToDoubleSeconds(seen - sent));
    }
    const double seconds = absl::ToDoubleSeconds(absl::Now() - from);
    wait_all();
    std::sort(delays.begin(), delays.end());
    AtMost(state, "percent_of_core", 100 * (home.cpu_seconds() - cpu) / seconds, 25);
    AtMost(state, "rss_mib", home.peak_rss_mib(), 256);
    AtMost(state, "slowest_s", delays.back(), 2);
    state.counters["median_s"] = delays[delays.size() / 2];
    state.counters["restart_s"] = attach_all(/*restart=*/1);
    state.SetIterationTime(seconds);
    all.clear();
    run.Finish(0);
  }
}
// One rank per node, and eight. {1023, 8} takes both cores of a small machine, most of it on the side
// of the nodes.
BENCHMARK(BM_JoinedNodes)
    ->Name("JoinedNodes")
    ->Args({8, 1})
    ->Args({128, 1})
    ->Args({1023, 1})
    ->Args({128, 8})
    ->Args({255, 8})
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace ranklog::peer

BENCHMARK_MAIN();
