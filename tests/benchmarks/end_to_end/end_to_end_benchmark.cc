// What a user would notice, with the installed programs: rank processes that log through libranklog
// to a real ranklogd.
//
// Each benchmark runs once and measures its own time, since it measures processes and not a loop.

#include <benchmark/benchmark.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"
#include "tests/benchmarks/figures.h"
#include "tests/support/dead_port.h"

namespace {

using ranklog::benchmarks::AtLeast;
using ranklog::benchmarks::AtMost;
using ranklog::benchmarks::SizeOf;
using Clock = std::chrono::steady_clock;

double Seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

[[noreturn]] void Die(const std::string& what) {
  perror(what.c_str());
  exit(1);
}

// A directory for one benchmark. It is on the disk on which the benchmark was started, since tmpfs
// has no flush to wait for. A socket's directory is in /tmp, since its path must be short.
class Directory {
 public:
  explicit Directory(const std::string& parent = std::filesystem::current_path().string()) {
    std::string path = parent + "/rlb-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) Die("mkdtemp " + path);
    path_ = path;
  }
  ~Directory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// In shared memory, like a rank's default, but in its own directory. So the user's daemon does not
// take what the ranks leave here, and our daemon takes none of the user's rings.
const std::string& SpoolDir() {
  static const Directory directory("/dev/shm");  // ranks end by _exit, and do not remove it
  return directory.path();
}

// A ranklogd of our own.
class Daemon {
 public:
  explicit Daemon(const Directory& directory, int cpu = -1, const char* api_key = nullptr)
      : socket_(sockets_.path() + "/d.sock") {
    if (api_key != nullptr) setenv("WANDB_API_KEY", api_key, 1);
    const std::string spools = SpoolDir();
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // Die() runs no destructor
      if (cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(cpu, &set);
        sched_setaffinity(0, sizeof set, &set);
      }
      const std::string state = directory.path() + "/state", listen = "unix:" + socket_;
      execl(RANKLOGD, "ranklogd", "--state-dir", state.c_str(), "--listen", listen.c_str(),
            "--spool-dir", spools.c_str(), "--log-level", "warn", nullptr);
      _exit(127);
    }
    // A busy disk may take seconds for the first flush.
    for (int i = 0; i < 12'000 && !std::filesystem::exists(socket_); ++i) usleep(5000);
    if (!std::filesystem::exists(socket_)) Die("ranklogd did not make " + socket_);
  }
  ~Daemon() { Stop(); }

  std::string address() const { return "unix:" + socket_; }

  // CPU time so far (user and system, in seconds), and the peak of the resident set in MiB.
  double cpu_seconds() const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/stat");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    unsigned long user = 0, system = 0;
    sscanf(text.c_str() + text.rfind(')') + 2,
           "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
    return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  double peak_rss_mib() const { return StatusMib("VmHWM:"); }
  double rss_mib() const { return StatusMib("VmRSS:"); }
  // CPU time of its threads so far, to the nanosecond. cpu_seconds() counts in hundredths of a
  // second.
  double run_seconds() const {
    double nanoseconds = 0;
    const std::string tasks = "/proc/" + std::to_string(pid_) + "/task";
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      double ran = 0;
      std::ifstream(task.path() / "schedstat") >> ran;
      nanoseconds += ran;
    }
    return nanoseconds / 1e9;
  }

  void Stop() {
    if (pid_ <= 0) return;
    kill(pid_, SIGTERM);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }

 private:
  double StatusMib(const std::string& key) const {
    std::ifstream file("/proc/" + std::to_string(pid_) + "/status");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind(key, 0) == 0) return std::stod(line.substr(key.size())) / 1024;
    }
    return 0;
  }

  Directory sockets_{"/tmp"};
  std::string socket_;
  pid_t pid_ = -1;
};

ranklog::Settings RankSettings(const std::string& address, const std::string& job, int rank,
                               int world_size) {
  ranklog::Settings settings;
  settings.project = "benchmark";
  settings.run_id = job;
  settings.rank = rank;
  settings.local_rank = rank;
  settings.world_size = world_size;
  settings.local_world_size = world_size;
  settings.address = address;
  settings.spool_dir = SpoolDir();
  settings.destinations = {"local"};
  settings.start_daemon = false;
  return settings;
}

double Seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double CpuSeconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return Seconds(time);
}

// Runs fn(rank) in `count` processes, and waits for them.
void RunRanks(int count, const std::function<int(int)>& fn) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < count; ++rank) {
    const pid_t pid = fork();
    if (pid == 0) _exit(fn(rank));
    pids.push_back(pid);
  }
  for (pid_t pid : pids) {
    int status = 0;
    waitpid(pid, &status, 0);
    if (status != 0) Die("a rank failed");
  }
}

constexpr int kWidth = 10;
const std::vector<std::string_view> kKeys = {"k0", "k1", "k2", "k3", "k4",
                                             "k5", "k6", "k7", "k8", "k9"};

// Returns the values/s of a table with a row per value, committed every 4096 rows of ten values:
// what a simple daemon would do.
double RowPerValueTable(const std::string& path) {
  sqlite3* db = nullptr;
  if (sqlite3_open(path.c_str(), &db) != SQLITE_OK) Die("sqlite3_open");
  sqlite3_exec(db,
               "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE v(run INT, step "
               "INT, key TEXT, value REAL,"
               " PRIMARY KEY(run, key, step)) WITHOUT ROWID;",
               nullptr, nullptr, nullptr);
  sqlite3_stmt* insert = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO v VALUES(1, ?, ?, ?)", -1, &insert, nullptr);
  const int rows = SizeOf(100'000, 5'000);
  const auto start = Clock::now();
  for (int row = 0; row < rows; ++row) {
    if (row % 4096 == 0)
      sqlite3_exec(db, row == 0 ? "BEGIN" : "COMMIT; BEGIN", nullptr, nullptr, nullptr);
    for (std::string_view key : kKeys) {
      sqlite3_bind_int(insert, 1, row);
      sqlite3_bind_text(insert, 2, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
      sqlite3_bind_double(insert, 3, row * 0.5);
      sqlite3_step(insert);
      sqlite3_reset(insert);
    }
  }
  sqlite3_exec(db, "COMMIT", nullptr, nullptr, nullptr);
  const double seconds = Seconds(Clock::now() - start);
  sqlite3_finalize(insert);
  sqlite3_close(db);
  return rows * kWidth / seconds;
}

// Two ranks log as fast as the daemon, on one core, makes their rows durable.
void BM_ClientToStoreSaturated(benchmark::State& state) {
  constexpr int kRanks = 2;
  const int rows = SizeOf(4'000'000, 100'000);
  for (auto _ : state) {
    Directory directory;
    Daemon daemon(directory, /*cpu=*/0);
    const auto start = Clock::now();
    RunRanks(kRanks, [&](int rank) {
      ranklog::Run run = ranklog::Init(RankSettings(daemon.address(), "saturated", rank, kRanks));
      ranklog::RowHandle row = run.Row(kKeys);
      double values[kWidth] = {};
      for (int64_t step = 0; step < rows; ++step) {
        values[step % kWidth] = static_cast<double>(step) * 0.5;
        while (!run.Log(row, values, step))
          usleep(1000);  // the spool is full, as it must be when saturated
      }
      return run.Flush(std::chrono::minutes(5)) == ranklog::FlushResult::kDurable ? 0 : 1;
    });
    const double seconds = Seconds(Clock::now() - start);
    const double rate = static_cast<double>(kRanks) * rows * kWidth / seconds;
    const double reference = RowPerValueTable(directory.path() + "/reference.db");
    state.SetIterationTime(seconds);
    AtLeast(state, "million_values_per_s", rate / 1e6, 15);
    state.counters["row_per_value_million_per_s"] = reference / 1e6;
    state.counters["ratio"] = rate / reference;
    state.counters["daemon_rss_mib"] = daemon.peak_rss_mib();
  }
}
BENCHMARK(BM_ClientToStoreSaturated)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// Returns the first column of the first row; 0 if there is none.
double SelectNumber(const std::string& path, const char* sql) {
  sqlite3* db = nullptr;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) != SQLITE_OK ||
      sqlite3_prepare_v2(db, sql, -1, &statement, nullptr) != SQLITE_OK) {
    Die(path + ": " + sql);
  }
  const double number =
      sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_double(statement, 0) : 0;
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return number;
}

// Two ranks log a million rows each as fast as they can, with values that differ between the ranks:
// the size of the store, and the CPU time of the daemon until it has made the runs' rows. A value
// has 8 bytes, and a row has a step, a time and its share of a batch. Under `main`, the run's rows
// also have three statistics of each metric, 12 bytes per logged value.
void StoreFlood(benchmark::State& state, ranklog::LogStrategy strategy, double bytes_goal) {
  constexpr int kRanks = 2;
  const int rows = SizeOf(1'000'000, 20'000);
  for (auto _ : state) {
    Directory directory;
    Daemon daemon(directory);
    const std::string store = directory.path() + "/state/ranklog.db";
    const auto start = Clock::now();
    RunRanks(kRanks, [&](int rank) {
      ranklog::Settings settings = RankSettings(daemon.address(), "flood", rank, kRanks);
      settings.log_strategy = strategy;
      ranklog::Run run = ranklog::Init(settings);
      ranklog::RowHandle row = run.Row(kKeys);
      double values[kWidth] = {};
      for (int64_t step = 0; step < rows; ++step) {
        for (double& value : values) value += 0.5 + rank;
        while (!run.Log(row, values, step)) usleep(1000);  // the spool is full
      }
      return run.Flush(std::chrono::minutes(5)) == ranklog::FlushResult::kDurable &&
                     run.Finish() == ranklog::FlushResult::kDurable
                 ? 0
                 : 1;
    });
    while (SelectNumber(store, "SELECT count(*) FROM run WHERE state = 0") != 0) usleep(20'000);
    state.SetIterationTime(Seconds(Clock::now() - start));
    const double values = static_cast<double>(kRanks) * rows * kWidth;
    state.counters["daemon_ns_per_value"] = 1e9 * daemon.run_seconds() / values;
    daemon.Stop();
    const double pages = SelectNumber(
        store, "SELECT page_count - freelist_count FROM pragma_page_count, pragma_freelist_count");
    AtMost(state, "bytes_per_value", 4096 * pages / values, bytes_goal);
  }
}
void BM_StoreFloodAll(benchmark::State& state) {
  StoreFlood(state, ranklog::LogStrategy::kAll, 9.5);
}
BENCHMARK(BM_StoreFloodAll)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
void BM_StoreFloodMain(benchmark::State& state) {
  StoreFlood(state, ranklog::LogStrategy::kMain, 21);
}
BENCHMARK(BM_StoreFloodMain)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// 8 ranks x 1000 rows/s x 10 values for 20 s: the CPU time of libranklog and of the daemon. Pacing
// (one wake-up per row) is a cost of the benchmark, and larger than all of that. So the logging
// thread counts only for the time of its calls.
void BM_SteadyLoadCpu(benchmark::State& state) {
  constexpr int kRanks = 8;
  const int seconds = SizeOf(20, 1);
  auto* const clients = static_cast<double*>(mmap(
      nullptr, kRanks * sizeof(double), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  if (clients == MAP_FAILED) Die("mmap");
  for (auto _ : state) {
    Directory directory;
    Daemon daemon(directory);
    RunRanks(kRanks, [&](int rank) {
      const double begin = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID);
      ranklog::Run run = ranklog::Init(RankSettings(daemon.address(), "steady", rank, kRanks));
      const double paced_from = CpuSeconds(CLOCK_THREAD_CPUTIME_ID);
      int failed = 0;
      Clock::duration in_log{};
      timespec next;
      clock_gettime(CLOCK_MONOTONIC, &next);
      for (int64_t step = 0; step < seconds * 1000; ++step) {
        const double x = static_cast<double>(step);
        const auto called = Clock::now();
        failed += run.Log({{"k0", x},
                           {"k1", x},
                           {"k2", x},
                           {"k3", x},
                           {"k4", x},
                           {"k5", x},
                           {"k6", x},
                           {"k7", x},
                           {"k8", x},
                           {"k9", x}},
                          step)
                      ? 0
                      : 1;
        in_log += Clock::now() - called;
        next.tv_nsec += 1'000'000;
        if (next.tv_nsec >= 1'000'000'000) {
          next.tv_nsec -= 1'000'000'000;
          ++next.tv_sec;
        }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, nullptr);
      }
      const double paced = CpuSeconds(CLOCK_THREAD_CPUTIME_ID) - paced_from;
      const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
      run = ranklog::Run();
      clients[rank] = CpuSeconds(CLOCK_PROCESS_CPUTIME_ID) - begin - paced + Seconds(in_log);
      return durable && failed == 0 ? 0 : 1;
    });
    const double clients_cpu = std::accumulate(clients, clients + kRanks, 0.0);
    const double daemon_cpu = daemon.cpu_seconds();
    state.SetIterationTime(seconds);
    AtMost(state, "percent_of_core", 100 * (clients_cpu + daemon_cpu) / seconds, 6);
    AtMost(state, "daemon_rss_mib", daemon.peak_rss_mib(), 40);
    state.counters["clients_percent"] = 100 * clients_cpu / seconds;
    state.counters["daemon_percent"] = 100 * daemon_cpu / seconds;
  }
  munmap(clients, kRanks * sizeof(double));
}
BENCHMARK(BM_SteadyLoadCpu)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// An idle daemon: what it costs a node that trains nothing. The goals are a thousandth of a core,
// and less memory than a shell with an editor.
void BM_IdleDaemon(benchmark::State& state) {
  const int seconds = SizeOf(20, 1);
  for (auto _ : state) {
    Directory directory;
    const auto begin = Clock::now();
    Daemon daemon(directory);
    state.counters["start_ms"] = 1e3 * Seconds(Clock::now() - begin);
    sleep(2);  // until it has settled
    const double before = daemon.run_seconds();
    sleep(static_cast<unsigned>(seconds));
    state.SetIterationTime(seconds);
    AtMost(state, "percent_of_core", 100 * (daemon.run_seconds() - before) / seconds, 0.1);
    AtMost(state, "rss_mib", daemon.rss_mib(), 25);
  }
}
BENCHMARK(BM_IdleDaemon)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// Returns the slowest of 20 Init() calls, each in a new process.
double SlowestInit(const ranklog::Settings& settings) {
  double slowest = 0;
  for (int i = 0; i < 20; ++i) {
    int fds[2];
    if (pipe(fds) != 0) Die("pipe");
    RunRanks(1, [&](int) {
      const auto start = Clock::now();
      ranklog::Run run = ranklog::Init(settings);
      const double seconds = Seconds(Clock::now() - start);
      return write(fds[1], &seconds, sizeof seconds) == sizeof seconds ? 0 : 1;
    });
    double seconds = 0;
    if (read(fds[0], &seconds, sizeof seconds) != sizeof seconds) Die("read");
    close(fds[0]);
    close(fds[1]);
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

void ReportInit(benchmark::State& state, double slowest) {
  state.SetIterationTime(slowest);
  AtMost(state, "slowest_ms", slowest * 1e3, 10);
}

void BM_InitWithoutDaemon(benchmark::State& state) {
  for (auto _ : state) {
    Directory directory;
    ReportInit(state,
               SlowestInit(RankSettings("unix:" + directory.path() + "/none", "init", 0, 1)));
  }
}
BENCHMARK(BM_InitWithoutDaemon)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

void BM_InitWithDaemon(benchmark::State& state) {
  for (auto _ : state) {
    Directory directory;
    Daemon daemon(directory);
    ReportInit(state, SlowestInit(RankSettings(daemon.address(), "init", 0, 1)));
  }
}
BENCHMARK(BM_InitWithDaemon)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// A tracker that accepts connections and never answers.
using SilentTracker = ranklog::testing::DeadPort;

ranklog::Settings SettingsFor(const Daemon& daemon, const SilentTracker& tracker,
                              const std::string& job) {
  ranklog::Settings settings = RankSettings(daemon.address(), job, 0, 1);
  settings.destinations = {"wandb"};
  settings.destination_settings["wandb"]["base_url"] = tracker.url();
  settings.credentials["WANDB_API_KEY"] = std::string(40, 'k');
  return settings;
}

void BM_InitWithSilentTracker(benchmark::State& state) {
  for (auto _ : state) {
    Directory directory;
    SilentTracker tracker(SilentTracker::kListens);
    Daemon daemon(directory);
    ReportInit(state, SlowestInit(SettingsFor(daemon, tracker, "init")));
  }
}
BENCHMARK(BM_InitWithSilentTracker)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

// Runs a rank, and returns the seconds that it measured; negative: it failed.
double SecondsOfRank(const std::function<double()>& rank) {
  int fds[2];
  if (pipe(fds) != 0) Die("pipe");
  RunRanks(1, [&](int) {
    const double seconds = rank();
    return seconds >= 0 && write(fds[1], &seconds, sizeof seconds) == sizeof seconds ? 0 : 1;
  });
  double seconds = 0;
  if (read(fds[0], &seconds, sizeof seconds) != sizeof seconds) Die("read");
  close(fds[0]);
  close(fds[1]);
  return seconds;
}

// Finish() right after the last of a million values, with a tracker that never answers.
void BM_FinishWithSilentTracker(benchmark::State& state) {
  for (auto _ : state) {
    Directory directory;
    SilentTracker tracker(SilentTracker::kListens);
    Daemon daemon(directory);
    const double seconds = SecondsOfRank([&] {
      ranklog::Run run = ranklog::Init(SettingsFor(daemon, tracker, "finish"));
      ranklog::RowHandle row = run.Row(kKeys);
      double values[kWidth] = {};
      for (int64_t step = 0; step < 100'000; ++step) {
        while (!run.Log(row, values, step)) usleep(1000);
      }
      const auto start = Clock::now();
      const bool durable = run.Finish(0) == ranklog::FlushResult::kDurable;
      return durable ? Seconds(Clock::now() - start) : -1;
    });
    state.SetIterationTime(seconds);
    AtMost(state, "ms", seconds * 1e3, 200);
  }
}
BENCHMARK(BM_FinishWithSilentTracker)
    ->Iterations(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

// A loop that keeps its best values in the summary, until all of it is durable.
void BM_SummaryCalls(benchmark::State& state) {
  for (auto _ : state) {
    Directory directory;
    Daemon daemon(directory);
    const double seconds = SecondsOfRank([&] {
      ranklog::Run run = ranklog::Init(RankSettings(daemon.address(), "summary", 0, 1));
      const auto start = Clock::now();
      for (int call = 0; call < 10'000; ++call) {
        if (!run.Summary({{"best", call}, {"loss", 1.0 / (call + 1)}})) return -1.0;
      }
      const bool durable = run.Flush(std::chrono::seconds(60)) == ranklog::FlushResult::kDurable;
      return durable ? Seconds(Clock::now() - start) : -1;
    });
    state.SetIterationTime(seconds);
    AtMost(state, "ms", seconds * 1e3, 1000);
  }
}
BENCHMARK(BM_SummaryCalls)->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
