// Delivers to a server the rows, config and definitions that sdk_run.py logs with the official SDK.
//
//   deliver-run BASE_URL RUN_ID ROWS

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/deliver/circuit_breaker.h"
#include "service/deliver/credentials.h"
#include "service/deliver/curl_transport.h"
#include "service/deliver/wandb/wandb_delivery.h"
#include "service/deliver/wandb/wandb_destination.h"
#include "service/storage/store.h"
#include "service/storage/store_reader.h"
#include "tests/service/storage/builders.h"
#include "tests/support/temp_dir.h"

namespace ranklog {
namespace {

constexpr int64_t kStartUs = 1'767'322'800'000'000;
const std::vector<std::vector<std::string>> kShapes = {
    {},
    {"train/loss", "lr", "global_step"},
    {"train/loss", "lr", "global_step", "val/loss"},
    {"train/loss", "lr", "val/loss"},
    {"train/loss", "lr"}};

model::Session TwinSession(const std::string& base_url, const std::string& run_id) {
  model::Session session;
  session.stream = {"interop", run_id, 0, 1};
  session.settings.entity = "fake-team";
  session.settings.name = "twin";
  session.settings.group = "twins";
  session.settings.job_type = "train";
  session.settings.notes = "two of a kind";
  session.settings.tags = {"a", "b"};
  session.settings.destinations = {"wandb"};
  session.settings.rank_statistics = {"none"};
  session.settings.destination_settings["wandb"]["base_url"] = base_url;
  session.settings.start_time_us = kStartUs;
  return session;
}

model::Batch Row(int i) {
  const bool val = i % 10 == 0;
  model::Batch batch = {
      .first = static_cast<uint64_t>(i), .last = static_cast<uint64_t>(i), .blocks = {}};
  model::Block& block = batch.blocks.emplace_back();
  const bool step = i != 40 && i != 43 && i != 44;
  block.shape = i == 40 ? 3 : !step ? 4 : val ? 2 : 1;
  block.offsets = {0};
  block.steps = {3 * i};
  block.times_us = {kStartUs + i * 1000};
  block.values = {1.0 / (i + 1), 1e-3};
  if (step) block.values.push_back(2.0 * i);
  if (val) block.values.push_back(i != 20 ? 2.0 - i / 100.0 : std::nan(""));
  if (i == 30) block.texts = {{0, "note", "half \"way\" \\ there\n"}};
  if (i == 31) {
    block.texts = {{0, "flag", "true", true},
                   {0, "large", "9007199254740993", true},
                   {0, "least", "-9223372036854775808", true},
                   {0, "null", "null", true},
                   {0, "_custom", "1", true}};
  }
  if (i == 32) {
    block.texts = {
        {0, "nested", R"({"a":{"b":true,"nan":NaN},"list":[1,2.5,"x",null]})", /*json=*/true}};
  }
  if (i == 33) block.texts = {{0, "nested", R"({"c":2})", true}};
  if (i == 43) block.texts = {{0, "global_step", "a text"}};
  return batch;
}

model::MetricDefinition Metric(const std::string& name, const std::string& step_metric,
                               const std::vector<std::string>& summary) {
  model::MetricDefinition metric;
  metric.name = name;
  metric.step_metric = step_metric;
  metric.summary = summary;
  return metric;
}

absl::StatusOr<model::Run> Fill(const std::string& dir, const model::Session& session, int rows) {
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::Store> store, storage::Store::Open(dir, {}));
  RETURN_IF_ERROR(store->Begin());
  const model::RunAssignment assignment = {
      .run_id = session.stream.job_id, .name = "twin", .primary = true};
  ASSIGN_OR_RETURN(const model::Stream stream, store->Attach(session, assignment, kStartUs));
  model::Item update;
  update.object = {{"flag", true},
                   {"large", 9007199254740993},
                   {"lr", 0.001},
                   {"layers", 4},
                   {"opt", {{"name", "adam"}, {"betas", {0.9, 0.95}}}}};
  RETURN_IF_ERROR(testing::AppendItem(*store, stream.id, update, kStartUs));
  for (const model::MetricDefinition& metric :
       {Metric("global_step", "", {}), Metric("train/*", "global_step", {}),
        Metric("val/loss", "", {"min", "last"}), Metric("lr", "", {"max"})}) {
    model::Item define;
    define.kind = model::Item::Kind::kMetric;
    define.metric = metric;
    RETURN_IF_ERROR(testing::AppendItem(*store, stream.id, define, kStartUs));
  }
  update.kind = model::Item::Kind::kSummary;
  update.object = {{"best", 0.25}};
  RETURN_IF_ERROR(testing::AppendItem(*store, stream.id, update, kStartUs));
  update.object = {{"train/loss", 7}};
  update.before_step = 31;
  RETURN_IF_ERROR(testing::AppendItem(*store, stream.id, update, kStartUs));
  for (uint32_t shape = 1; shape < kShapes.size(); ++shape) {
    RETURN_IF_ERROR(store->DefineRunShape(stream.run, shape, kShapes[shape]));
  }
  for (int i = 0; i < rows; ++i) RETURN_IF_ERROR(store->AppendRunRows(stream.run, Row(i)));
  RETURN_IF_ERROR(store->EndStream(stream.id, model::StreamState::kFinished, 0, "", kStartUs));
  RETURN_IF_ERROR(
      store->CloseRun(stream.run, model::RunState::kFinished, 0, "", kStartUs + 1'000'000));
  RETURN_IF_ERROR(store->Commit());
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(dir));
  return reader->GetRun(stream.run);
}

absl::Status Deliver(const std::string& base_url, const std::string& run_id, int rows) {
  const testing::TempDir dir;
  ASSIGN_OR_RETURN(const model::Run run, Fill(dir.path(), TwinSession(base_url, run_id), rows));
  ASSIGN_OR_RETURN(const std::unique_ptr<storage::StoreReader> reader,
                   storage::StoreReader::Open(dir.path()));
  ASSIGN_OR_RETURN(const std::unique_ptr<deliver::CurlTransport> transport,
                   deliver::CurlTransport::Create({}));
  const deliver::CredentialStore credentials(
      deliver::CredentialStore::Options::FromEnvironment(dir.path()));
  model::Delivery delivery;
  delivery.run = run.id;
  delivery.kind = deliver::wandb::kKind;
  deliver::CircuitBreakers breakers({}, SteadyNow);
  deliver::wandb::WandbDelivery wandb(
      run, delivery,
      deliver::DeliveryParts{
          .transport = transport.get(), .breakers = &breakers, .credentials = &credentials},
      {});
  while (true) {
    const deliver::StepResult result = wandb.Step(*reader, SteadyNow(), /*draining=*/true);
    if (result.delivery.complete) return absl::OkStatus();
    if (!result.delivery.last_error.empty())
      return absl::UnavailableError(result.delivery.last_error);
  }
}

}  // namespace
}  // namespace ranklog

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const absl::Status status = ranklog::Deliver(argv[1], argv[2], std::atoi(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
