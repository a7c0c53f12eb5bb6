// A run in a real store, for tests of deliveries.

#ifndef TESTS_SERVICE_DELIVER_WANDB_STORED_RUN_H_
#define TESTS_SERVICE_DELIVER_WANDB_STORED_RUN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::testing {

inline constexpr int64_t kRunStartUs = 1'767'322'800'000'000;
inline constexpr char kMlflowUrl[] = "http://127.0.0.1:5000";

// The run "r" of one rank, with shapes 1 {"loss"} and 2 {"loss", "x"}. Row i has step `first_step`
// + i and loss i + 0.5. Its time is i ms after `start_us`.
class StoredRun {
 public:
  explicit StoredRun(const std::string& base_url, int64_t first_step = 0,
                     int64_t start_us = kRunStartUs)
      : first_step_(first_step), start_us_(start_us) {
    store_ = storage::Store::Open(dir_.path(), {}).value();
    reader_ = storage::StoreReader::Open(dir_.path()).value();
    session_.stream = {"p", "r", 0, 1};
    session_.settings.destination_settings["wandb"]["base_url"] = base_url;
    session_.settings.destination_settings["mlflow"]["tracking_uri"] = kMlflowUrl;
    session_.settings.destination_settings["clickhouse"]["url"] = "http://127.0.0.1:8123/logs";
    session_.settings.destinations = {"wandb"};
    session_.settings.rank_statistics = {"none"};
    session_.settings.start_time_us = kRunStartUs;
    assignment_.run_id = "r";
    assignment_.name = "name";
    assignment_.primary = true;
    Attach();
    Write([&](storage::Store& store) {
      EXPECT_OK(store.DefineRunShape(stream_.run, 1, std::vector<std::string>{"loss"}));
      EXPECT_OK(store.DefineRunShape(stream_.run, 2, std::vector<std::string>{"loss", "x"}));
    });
  }

  template <typename Fn>
  void Write(Fn&& fn) {
    EXPECT_OK(store_->Begin());
    fn(*store_);
    EXPECT_OK(store_->Commit());
  }

  // `text`: the value of "note" in the first of the rows.
  void Append(uint64_t rows, const std::string& text = "", uint32_t shape = 1) {
    const uint64_t first = run().rows;
    model::Batch batch;
    batch.first = first;
    batch.last = first + rows - 1;
    model::Block& block = batch.blocks.emplace_back();
    block.shape = shape;
    block.commits = block.counted = counted_;
    for (uint64_t i = first; i <= batch.last; ++i) {
      block.offsets.push_back(static_cast<uint32_t>(i - first));
      block.steps.push_back(first_step_ + static_cast<int64_t>(i));
      block.times_us.push_back(start_us_ + static_cast<int64_t>(i) * 1000);
      block.values.push_back(static_cast<double>(i) + 0.5);
      if (shape == 2) block.values.push_back(static_cast<double>(i));
    }
    if (!text.empty()) block.texts.push_back({0, "note", text});
    Write([&](storage::Store& store) { EXPECT_OK(store.AppendRunRows(stream_.run, batch)); });
  }
  void Apply(model::Item::Kind kind, const model::Json& object) {
    model::Item update;
    update.kind = kind;
    update.object = object;
    Write([&](storage::Store& store) {
      EXPECT_OK(testing::AppendItem(store, stream_.id, update, kRunStartUs));
    });
  }
  void Define(const model::MetricDefinition& metric) {
    model::Item update;
    update.kind = model::Item::Kind::kMetric;
    update.metric = metric;
    Write([&](storage::Store& store) {
      EXPECT_OK(testing::AppendItem(store, stream_.id, update, kRunStartUs));
    });
  }
  void Close(model::RunState state, int32_t exit_code) {
    Write([&](storage::Store& store) {
      EXPECT_OK(
          store.EndStream(stream_.id, model::StreamState::kFinished, exit_code, "", kRunStartUs));
      EXPECT_OK(store.CloseRun(stream_.run, state, exit_code, "", kRunStartUs + 5'000'000));
    });
  }

  // Attaches again after the end, so the run continues.
  void Attach() {
    Write([&](storage::Store& store) {
      stream_ = store.Attach(session_, assignment_, kRunStartUs).value();
    });
  }
  // The same, by ranks that give another address of the server.
  void AttachAt(const std::string& base_url) {
    session_.settings.destination_settings["wandb"]["base_url"] = base_url;
    Attach();
  }
  // The same, by a start that must continue an existing run.
  void Resume(const std::string& resume = "allow") {
    session_.settings.resume = resume;
    Attach();
  }
  // The same, by a start with this setting.
  void ForkFrom(const std::string& branch_point) {
    session_.settings.destination_settings["wandb"]["fork_from"] = branch_point;
    Attach();
  }
  // Later rows get times that are later by this much.
  void Pass(int64_t us) { start_us_ += us; }
  // Count(): the next rows were logged without a step. GiveSteps(): they have steps, from `first`
  // on.
  void Count() { counted_ = true; }
  void GiveSteps(int64_t first) {
    counted_ = false;
    first_step_ = first - static_cast<int64_t>(run().rows);
  }

  const model::Stream& stream() const { return stream_; }
  model::Run run() { return reader_->GetRun(stream_.run).value(); }
  storage::StoreReader& reader() { return *reader_; }

 private:
  int64_t first_step_;
  bool counted_ = false;
  int64_t start_us_;
  TempDir dir_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<storage::StoreReader> reader_;
  model::Session session_;
  model::RunAssignment assignment_;
  model::Stream stream_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_DELIVER_WANDB_STORED_RUN_H_
