#include "service/ingest/ring/convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ranklog/v1/spool_layout.h"
#include "tests/support/status_matchers.h"

namespace ranklog::ingest {
namespace {

using ::ranklog::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

v1::Hello ValidHello() {
  v1::Hello hello;
  hello.set_protocol(v1::kProtocolVersion);
  hello.mutable_stream()->set_project("p");
  hello.mutable_stream()->set_job_id("j");
  hello.mutable_stream()->set_incarnation(1);
  hello.mutable_identity()->set_world_size(1);
  return hello;
}

TEST(ConvertTest, ToSessionRejectsInvalidHello) {
  EXPECT_OK(ToSession(ValidHello()));
  v1::Hello hello = ValidHello();
  hello.set_protocol(v1::kProtocolVersion + 1);
  EXPECT_THAT(ToSession(hello), StatusIs(absl::StatusCode::kFailedPrecondition));
  hello = ValidHello();
  hello.mutable_stream()->set_rank(5);
  EXPECT_THAT(ToSession(hello), StatusIs(absl::StatusCode::kInvalidArgument));
}

v1::Destination* AddDestination(v1::Hello* hello, const std::string& kind, bool chosen = true) {
  v1::Destination* const destination = hello->mutable_settings()->add_destinations();
  destination->set_kind(kind);
  destination->set_chosen(chosen);
  return destination;
}

TEST(ConvertTest, UnknownDestinationIsMistakeAndRowsStay) {
  v1::Hello hello = ValidHello();
  AddDestination(&hello, "pigeon");
  ASSERT_OK_AND_ASSIGN(model::Session session, ToSession(hello));
  EXPECT_THAT(session.settings.destinations, ElementsAre("local"));
  EXPECT_THAT(session.mistakes,
              ElementsAre("unknown destination \"pigeon\"; use wandb, mlflow, clickhouse, offline "
                          "or local; it is ignored",
                          "so the rows stay on this node until `ranklog sync {run} --to wandb`"));
  AddDestination(&hello, "wandb");
  AddDestination(&hello, "owl", /*chosen=*/false);
  ASSERT_OK_AND_ASSIGN(session, ToSession(hello));
  EXPECT_THAT(session.settings.destinations, ElementsAre("wandb"));
  EXPECT_THAT(session.mistakes, SizeIs(2));
}

TEST(ConvertTest, SettingsOfDestinationsAreThoseItKnows) {
  v1::Hello hello = ValidHello();
  auto& given = *AddDestination(&hello, "wandb", /*chosen=*/false)->mutable_settings();
  given["WANDB_BASE_URL"] = "https://variable";
  given["WANDB_DIR"] = "/tmp";
  ASSERT_OK_AND_ASSIGN(model::Session session, ToSession(hello));
  EXPECT_THAT(session.settings.destinations, IsEmpty()) << "the daemon chooses";
  EXPECT_EQ(session.settings.Of("wandb", "base_url"), "https://variable");
  EXPECT_THAT(session.mistakes, IsEmpty());
  given["base_url"] = " https://me:secret@host:8080";
  given["base_uri"] = "https://other";
  ASSERT_OK_AND_ASSIGN(session, ToSession(hello));
  EXPECT_EQ(session.settings.Of("wandb", "base_url"), "https://host:8080");
  EXPECT_EQ(session.settings.destination_settings.at("wandb").size(), 1u);
  EXPECT_THAT(
      session.mistakes,
      ElementsAre("wandb has no setting \"base_uri\"; use fork_from, resume_from, base_url; it is "
                  "ignored",
                  "base_url of wandb contains a user or a password, or an @; this part is "
                  "ignored; set WANDB_API_KEY"));
}

TEST(ConvertTest, UnusableSettingsOfDestinationsAreMistakes) {
  v1::Hello hello = ValidHello();
  auto& given = *AddDestination(&hello, "wandb", /*chosen=*/false)->mutable_settings();
  given["WANDB_FORK_FROM"] = " other?_step=7 ";
  ASSERT_OK_AND_ASSIGN(model::Session session, ToSession(hello));
  EXPECT_EQ(session.settings.Of("wandb", "fork_from"), "other?_step=7");
  EXPECT_THAT(session.mistakes, IsEmpty());
  given["WANDB_FORK_FROM"] = "other";
  given["WANDB_RESUME_FROM"] = "r?_step=7";
  ASSERT_OK_AND_ASSIGN(session, ToSession(hello));
  EXPECT_THAT(session.settings.destination_settings, IsEmpty());
  EXPECT_THAT(session.mistakes,
              ElementsAre(HasSubstr("WANDB_FORK_FROM of wandb: \"other\" is not RUN?_step=N"),
                          HasSubstr("WANDB_RESUME_FROM of wandb: a run cannot be rewound")));
}

TEST(ConvertTest, StatisticsKeepTheirRules) {
  v1::Hello hello = ValidHello();
  hello.mutable_settings()->add_rank_statistics("std");
  hello.mutable_settings()->add_rank_statistic_rules("perf/*=max");
  ASSERT_OK_AND_ASSIGN(const model::Session session, ToSession(hello));
  EXPECT_THAT(session.settings.rank_statistics, ElementsAre("std"));
  EXPECT_THAT(session.settings.rank_statistic_rules, ElementsAre("perf/*=max"));
}

TEST(ConvertTest, DeltasAddUp) {
  v1::Batch batch;
  batch.set_first_seq(7);
  batch.set_last_seq(8);
  v1::Block* const block = batch.add_block();
  block->set_shape(1);
  for (uint32_t offset : {0, 1}) block->add_seq_offset(offset);
  for (int64_t delta : {100, 1}) block->add_step_delta(delta);
  for (int64_t delta : {5'000'000, 20}) block->add_time_delta_us(delta);
  for (double value : {1.0, 2.0}) block->add_value(value);
  ASSERT_OK_AND_ASSIGN(const model::Batch converted, ToBatch(batch));
  EXPECT_THAT(converted.blocks[0].steps, ElementsAre(100, 101));
  EXPECT_THAT(converted.blocks[0].times_us, ElementsAre(5'000'000, 5'000'020));
}

TEST(ConvertTest, InconsistentBatchesAreRefused) {
  v1::Batch batch;
  batch.set_first_seq(1);
  batch.set_last_seq(~uint64_t{0});
  EXPECT_THAT(ToBatch(batch), StatusIs(absl::StatusCode::kInvalidArgument));
  batch.set_first_seq(0);
  EXPECT_THAT(ToBatch(batch), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ConvertTest, TextsKeepTheirType) {
  v1::Batch batch;
  batch.set_first_seq(1);
  batch.set_last_seq(1);
  v1::Block* const block = batch.add_block();
  block->add_seq_offset(0);
  block->add_step_delta(0);
  block->add_time_delta_us(0);
  for (const bool json : {false, true}) {
    v1::Text* const text = block->add_text();
    text->set_key(json ? "json" : "text");
    text->set_value("true");
    text->set_json(json);
  }
  ASSERT_OK_AND_ASSIGN(const model::Batch converted, ToBatch(batch));
  EXPECT_THAT(converted.blocks.at(0).texts,
              ElementsAre(model::Text{0, "text", "true"}, model::Text{0, "json", "true", true}));
  block->mutable_text(1)->set_value("tru");
  EXPECT_THAT(ToBatch(batch), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ConvertTest, UpdatesKeepTypesAndOrder) {
  v1::Item update;
  v1::Object* const config = update.mutable_config();
  const auto add = [&](const char* key) {
    v1::Field* const field = config->add_fields();
    field->set_key(key);
    return field->mutable_value();
  };
  add("z")->set_integer(3);
  add("a")->set_number(3.0);
  add("flag")->set_flag(true);
  add("large")->set_unsigned_integer(~uint64_t{0});
  add("null");
  add("list")->mutable_list()->add_values()->set_text("x");
  ASSERT_OK_AND_ASSIGN(const model::Item converted, ToItem(update));
  EXPECT_EQ(converted.object.dump(),
            R"({"z":3,"a":3.0,"flag":true,"large":18446744073709551615,"null":null,"list":["x"]})");
  EXPECT_THAT(ToItem(v1::Item()), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(ConvertTest, MetadataIsAKindOfItsOwn) {
  v1::Item item;
  v1::Field* const field = item.mutable_metadata()->add_fields();
  field->set_key("os");
  field->mutable_value()->set_text("Linux");
  ASSERT_OK_AND_ASSIGN(const model::Item converted, ToItem(item));
  EXPECT_EQ(converted.kind, model::Item::Kind::kMetadata);
  item.set_preempting(true);
  ASSERT_OK_AND_ASSIGN(const model::Item preempting, ToItem(item));
  EXPECT_EQ(preempting.kind, model::Item::Kind::kPreempting);
  EXPECT_EQ(converted.object.dump(), R"({"os":"Linux"})");
}

TEST(ConvertTest, DeepNestingIsRefused) {
  v1::Item update;
  v1::Value* value = update.mutable_config()->add_fields()->mutable_value();
  for (size_t i = 0; i <= kMaxConfigDepth; ++i) value = value->mutable_list()->add_values();
  EXPECT_THAT(ToItem(update), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ranklog::ingest
