// Values per second from memory to disk and back, by the number of rows per transaction, with ten
// values per row. The reference is a table with one SQLite row per value, written in the same run
// with the same settings. The counter "ratio" is the speed of the store relative to it.

#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "service/storage/database/sqlite.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/temp_dir.h"

namespace {

using ranklog::model::Batch;
using ranklog::storage::Database;
using ranklog::storage::Store;
using ranklog::storage::StoreReader;

constexpr size_t kWidth = 10;

void Must(const absl::Status& status) {
  if (status.ok()) return;
  fprintf(stderr, "%s\n", status.ToString().c_str());
  std::abort();
}

// A store with one stream, and the thread that checkpoints its log, as in the daemon.
class OpenStore {
 public:
  OpenStore() : store_(*Store::Open(dir_.path(), {})) {
    Must(store_->Begin());
    stream_ =
        store_->Attach(ranklog::testing::SessionOf(0), ranklog::testing::AssignmentOf("r"), 1)->id;
    Must(store_->DefineShape(stream_, 1, ranklog::testing::Keys(kWidth)));
    Must(store_->Commit());
    checkpoints_ = std::thread([this] {
      while (!stop_.WaitForNotificationWithTimeout(absl::Seconds(1))) Must(store_->Checkpoint());
    });
  }
  ~OpenStore() {
    stop_.Notify();
    checkpoints_.join();
  }

  // Appends `batches` batches in one transaction: this batch, and the same one for the following
  // rows.
  void AppendAndCommit(Batch& batch, int64_t batches) {
    const uint64_t rows = batch.rows();
    Must(store_->Begin());
    for (int64_t i = 0; i < batches; ++i) {
      Must(store_->Append(stream_, batch).status());
      batch.first += rows;
      batch.last += rows;
    }
    Must(store_->Commit());
  }
  int64_t stream() const { return stream_; }
  const std::string& directory() const { return dir_.path(); }

 private:
  ranklog::testing::TempDir dir_;
  std::unique_ptr<Store> store_;
  int64_t stream_ = 0;
  absl::Notification stop_;
  std::thread checkpoints_;
};

// Returns the seconds that the reference needs per value, with `rows` rows per transaction.
double SecondsPerValueInATable(int64_t rows) {
  static std::map<int64_t, double> measured;
  if (measured.count(rows) != 0) return measured[rows];
  ranklog::testing::TempDir dir;
  const std::string path = dir.File("reference.db");
  fclose(fopen(path.c_str(), "w"));
  Database database = *Database::Open(path, Database::Mode::kReadWrite, nullptr);
  Must(database.Execute(
      "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
      "CREATE TABLE value(id INTEGER PRIMARY KEY, stream INTEGER, key INTEGER, step INTEGER, "
      "time_us INTEGER, value REAL)"));
  const absl::Time start = absl::Now();
  int64_t values = 0;
  for (int64_t step = 0; absl::Now() - start < absl::Milliseconds(500);) {
    Must(database.Run("BEGIN"));
    for (int64_t row = 0; row < rows; ++row, ++step) {
      for (size_t key = 0; key < kWidth; ++key, ++values) {
        // Binds the double as its bits: our statements bind no doubles, and an integer is not
        // slower.
        Must(database.Run(
            "INSERT INTO value(stream, key, step, time_us, value) VALUES(1, ?1, ?2, ?3, ?4)",
            {key, step, 1'700'000'000'000'000 + step, 4607182418800017408 + step}));
      }
    }
    Must(database.Run("COMMIT"));
  }
  return measured[rows] = absl::ToDoubleSeconds(absl::Now() - start) / static_cast<double>(values);
}

void BM_AppendAndCommit(benchmark::State& state) {
  const int64_t rows = state.range(0);
  const int64_t batches = state.range(1);
  const double reference = SecondsPerValueInATable(rows * batches);
  OpenStore store;
  Batch batch = ranklog::testing::Dense(1, static_cast<uint64_t>(rows), 1, kWidth);
  const absl::Time start = absl::Now();
  for (auto _ : state) store.AppendAndCommit(batch, batches);
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const int64_t values = state.iterations() * rows * batches * static_cast<int64_t>(kWidth);
  state.SetItemsProcessed(values);
  state.counters["table_values/s"] = 1 / reference;
  state.counters["ratio"] = reference / (seconds / static_cast<double>(values));
}
// The last arguments match the daemon under load: a transaction takes about 4 MiB.
BENCHMARK(BM_AppendAndCommit)
    ->ArgNames({"rows", "batches"})
    ->Args({1, 1})
    ->Args({256, 1})
    ->Args({4096, 1})
    ->Args({16, 1024})
    ->Args({256, 192})
    ->Args({4096, 12})
    ->UseRealTime();

void BM_ReadBatches(benchmark::State& state) {
  const int64_t rows = state.range(0);
  constexpr int64_t kRows = 1 << 18;
  OpenStore store;
  Batch batch = ranklog::testing::Dense(1, static_cast<uint64_t>(rows), 1, kWidth);
  store.AppendAndCommit(batch, kRows / rows);
  auto reader = *StoreReader::Open(store.directory());
  for (auto _ : state) {
    uint64_t after = 0;
    while (true) {
      const auto batches = *reader->StreamBatches(store.stream(), after, 1 << 20);
      if (batches.empty()) break;
      after = batches.back().batch.last;
    }
    if (after != static_cast<uint64_t>(kRows)) std::abort();
  }
  state.SetItemsProcessed(state.iterations() * kRows * static_cast<int64_t>(kWidth));
}
BENCHMARK(BM_ReadBatches)->ArgName("rows")->Arg(16)->Arg(256)->Arg(4096)->UseRealTime();

}  // namespace

BENCHMARK_MAIN();
