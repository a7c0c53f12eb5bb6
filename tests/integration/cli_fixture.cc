#include "tests/integration/cli_fixture.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_split.h"
#include "tests/service/storage/builders.h"
#include "tests/support/status_matchers.h"

namespace ranklog::testing {

Json Parse(const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  EXPECT_FALSE(json.is_discarded()) << text;
  return json;
}

std::vector<std::string> Lines(const std::string& text) {
  return absl::StrSplit(text, '\n', absl::SkipEmpty());
}

model::Batch MakeBatch(uint64_t first, uint64_t rows) {
  model::Batch batch;
  batch.first = first;
  batch.last = first + rows - 1;
  model::Block block;
  block.shape = 1;
  for (uint64_t i = 0; i < rows; ++i) {
    block.offsets.push_back(i);
    block.steps.push_back(10 * static_cast<int64_t>(i));
    block.times_us.push_back(kStart + static_cast<int64_t>(i) * 500000);
    block.values.push_back(1.0 / static_cast<double>(i + 1));
    block.values.push_back(static_cast<double>(i));
  }
  batch.blocks.push_back(block);
  return batch;
}

void CliTest::SetUp() {
  ASSERT_OK_AND_ASSIGN(store_, storage::Store::Open(state_dir(), {}));
  ASSERT_OK(store_->Begin());
  MakeFinishedRun();
  MakeRunningRun();
  ASSERT_OK(store_->Commit());
}

Finished CliTest::Ranklog(std::vector<std::string> args) const {
  args.insert(args.begin(), RANKLOG_CLI);
  args.insert(args.end(), {"--state-dir", state_dir()});
  return RunToEnd(args, options_);
}

Json CliTest::RanklogJson(std::vector<std::string> args) const {
  args.push_back("--json");
  const Finished finished = Ranklog(std::move(args));
  EXPECT_EQ(finished.code, 0) << finished.output;
  return Parse(finished.output);
}

model::Stream CliTest::Attach(const std::string& job, uint32_t rank, const std::string& name,
                              const std::string& destination, int64_t time_us) {
  model::Session session;
  session.stream = {"gpt", job, rank, /*incarnation=*/0xA0 + rank};
  session.settings.name = name;
  session.settings.group = "sweep";
  session.settings.tags = {"wide", "bf16"};
  session.settings.destinations = {destination};
  session.settings.start_time_us = time_us;
  session.settings.destination_settings["wandb"]["base_url"] =
      "http://127.0.0.1:1";  // nothing listens there
  session.identity.world_size = 2;
  session.identity.local_world_size = 2;
  session.identity.local_rank = rank;
  session.identity.node = "n1";
  model::RunAssignment assignment;
  assignment.run_id = job;
  assignment.name = name;
  assignment.primary = rank == 0;
  const auto stream = store_->Attach(session, assignment, time_us);
  EXPECT_OK(stream);
  return stream.value_or(model::Stream());
}

void CliTest::MakeFinishedRun() {
  for (const uint32_t rank : {0, 1}) {
    const model::Stream stream = Attach("job1", rank, "tiny", "wandb", kStart);
    ASSERT_OK(store_->DefineShape(stream.id, 1, std::vector<std::string>{"train/loss", "lr"}));
    ASSERT_OK(store_->Append(stream.id, MakeBatch(1, rank == 0 ? 5 : 4)));
    ASSERT_OK(store_->SetAggregated(stream.id, {.through = rank == 0 ? 5u : 4u, .late = rank}));
    run_ = stream.run;
    if (rank == 1) {
      model::Losses losses;
      losses.ring_full = 2;
      losses.step_behind = 1;
      ASSERT_OK(store_->SetLosses(stream.id, losses));
    } else {
      model::Item update;
      update.object = {{"learning_rate", 0.001}, {"model", {{"layers", 4}}}};
      ASSERT_OK(AppendItem(*store_, stream.id, update, kStart));
    }
    ASSERT_OK(store_->EndStream(stream.id, model::StreamState::kFinished, 0, "", kStart));
  }
  ASSERT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"train/loss", "lr"}));
  ASSERT_OK(store_->AppendRunRows(run_, MakeBatch(0, 5)));
  ASSERT_OK(store_->SetPosition(run_, {.last_step = 40, .furthest_step = 40}));
  ASSERT_OK(store_->CloseRun(run_, model::RunState::kFinished, 0, "", kStart + 60000000));
  model::Delivery delivery;
  delivery.run = run_;
  delivery.kind = "wandb";
  delivery.delivered_rows = 3;
  delivery.refused_rows = 1;
  delivery.last_error = "HTTP 503: overloaded";
  ASSERT_OK(store_->PutDelivery(delivery));
  model::DeadLetter letter;
  letter.run = run_;
  letter.kind = "wandb";
  letter.row = 2;
  letter.time_us = kStart;
  letter.answer = "HTTP 400: bad key";
  letter.content = "{\"a\":1}";
  ASSERT_OK(store_->AddDeadLetter(letter));
}

void CliTest::MakeRunningRun() {
  live_ = Attach("job2", 0, "other", "local", kStart + 3600000000);
  ASSERT_OK(store_->DefineRunShape(live_.run, 1, std::vector<std::string>{"loss", "note,x"}));
  model::Batch batch = MakeBatch(0, 2);
  batch.blocks[0].values[0] = std::nan("");
  batch.blocks[0].texts = {{1, "text", "say \"hi\""}};
  ASSERT_OK(store_->AppendRunRows(live_.run, batch));
  ASSERT_OK(store_->SetPosition(live_.run, {.last_step = 10, .furthest_step = 10}));
}

}  // namespace ranklog::testing
