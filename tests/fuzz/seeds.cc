// Writes the binary seeds: fuzz_seeds DIR creates DIR/{ring,messages,blobs,values,wandb_log}/NAME.

#include <stdio.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <string>

#include "ranklog/v1/ranklog.pb.h"
#include "service/storage/rows/batch_codec.h"
#include "service/storage/rows/documents.h"
#include "service/wandb_log/log_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/ring_image.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::fuzz {
namespace {

using testing::RingImage;

void Write(const std::string& dir, const std::string& name, const std::string& bytes) {
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/" + name, std::ios::binary) << bytes;
}

v1::Hello Hello() {
  v1::Hello hello;
  hello.set_protocol(v1::kProtocolVersion);
  hello.mutable_stream()->set_project("p");
  hello.mutable_stream()->set_job_id("j");
  hello.mutable_stream()->set_incarnation(42);
  hello.mutable_identity()->set_world_size(2);
  v1::Destination* const destination = hello.mutable_settings()->add_destinations();
  destination->set_kind("local");
  destination->set_chosen(true);
  hello.mutable_settings()->add_rank_statistics("mean");
  hello.mutable_settings()->add_rank_statistic_rules("perf/*=max,argmax");
  return hello;
}

v1::Item Config() {
  v1::Item update;
  v1::Field* lr = update.mutable_config()->add_fields();
  lr->set_key("lr");
  lr->mutable_value()->set_number(std::numeric_limits<double>::quiet_NaN());
  v1::Field* list = update.mutable_config()->add_fields();
  list->set_key("list");
  list->mutable_value()->mutable_list()->add_values()->set_text("a");
  list->mutable_value()->mutable_list()->add_values()->mutable_object();
  return update;
}

v1::Item Metric() {
  v1::Item update;
  update.mutable_metric()->set_name("loss*");
  update.mutable_metric()->add_summary("min");
  return update;
}

// The image in the form of ring_fuzz.cc's input.
std::string RingInput(RingImage& image) {
  const std::string& bytes = image.bytes();
  const size_t hello = image.header().hello_bytes;
  return bytes.substr(0, sizeof(v1::SpoolHeader)) + static_cast<char>(hello) +
         bytes.substr(v1::kSpoolHeaderBytes, hello) +
         bytes.substr(v1::kSpoolDataOffset, image.header().head.load() % RingImage::kRing);
}

void Rings(const std::string& dir) {
  RingImage empty;
  empty.Hello(Hello().SerializeAsString());
  Write(dir, "empty", RingInput(empty));

  RingImage rows = empty;
  rows.Shape(1, {"loss", "lr"});
  rows.Row(1, 1, {0.5, 1e-3});
  rows.Item(1, /*after_row=*/1, Config().SerializeAsString());
  rows.Row(2, 2, {0.25, 1e-3});
  rows.Append(v1::RecordKind::kPad, 0, "");
  rows.Shape(2, {"x"});
  rows.header().finished = 1;
  Write(dir, "rows", RingInput(rows));

  RingImage lies = rows;
  lies.Poke(0, 0xfffffff8);
  Write(dir, "long_record", RingInput(lies));
  lies = rows;
  lies.header().data_bytes = v1::kMaxRingBytes;
  Write(dir, "long_ring", RingInput(lies));
}

void Messages(const std::string& dir) {
  const auto write = [&](const std::string& name, const v1::ClientMessage& message) {
    Write(dir, name, message.SerializeAsString());
  };
  v1::ClientMessage hello;
  *hello.mutable_hello() = Hello();
  write("hello", hello);
  v1::ClientMessage shape;
  shape.mutable_shape()->set_id(1);
  shape.mutable_shape()->add_keys("loss");
  write("shape", shape);
  v1::ClientMessage batch;
  batch.mutable_batch()->set_first_seq(1);
  batch.mutable_batch()->set_last_seq(3);
  for (uint32_t b = 0; b < 2; ++b) {
    v1::Block* block = batch.mutable_batch()->add_block();
    block->set_shape(b);
    for (uint32_t row = 0; row < 2 - b; ++row) {
      block->add_seq_offset(b == 0 ? 2 * row : 1);
      block->add_step_delta(1);
      block->add_time_delta_us(1'000'000);
      if (b == 1) block->add_value(0.5);
    }
    v1::Text* text = block->add_text();
    text->set_key("k");
    text->set_value("v");
  }
  write("batch", batch);
  v1::ClientMessage losses;
  losses.mutable_losses()->set_ring_full(7);
  write("losses", losses);
  v1::ClientMessage items;
  *items.mutable_items()->add_item() = Config();
  *items.mutable_items()->add_item() = Metric();
  write("items", items);
}

void Blobs(const std::string& dir) {
  // Without the checksum, which the target adds.
  const auto write = [&](const std::string& name, int kind, const std::string& blob) {
    Write(dir, name, static_cast<char>(kind) + blob.substr(0, blob.size() - 4));
  };
  model::Batch batch{.first = 5, .last = 6, .blocks = {}};
  batch.blocks.push_back(
      {.shape = 1,
       .commits = true,
       .offsets = {0, 1},
       .steps = {1, 2},
       .times_us = {10, 20},
       .values = {0.5, 1, 2, 3},
       .texts = {{.row = 1, .key = "k", .value = "v"},
                 {.row = 1, .key = "m", .value = "{\"a\":[true]}", .json = true}}});
  std::string blob;
  storage::EncodeBatch(batch, blob);
  write("batch", 0, blob);
  write("keys", 1, storage::EncodeKeys({"loss", "lr"}));
  write("document", 2,
        storage::EncodeDocument({{"a", 1}, {"b", {1.5, nullptr, "t"}}, {"c", {{"d", true}}}}));
  write("settings", 3, storage::EncodeSettings({.name = "n", .tags = {"t"}}));
  model::Item metric;
  metric.kind = model::Item::Kind::kMetric;
  metric.metric = {.name = "loss", .summary = {"min"}};
  write("metric", 4 + 5 * 3, storage::EncodeItem(metric));
  model::Item config;
  config.object = {{"lr", 0.1}};
  write("config", 4 + 5 * 1, storage::EncodeItem(config));
  config.kind = model::Item::Kind::kSummary;
  config.before_step = 3;
  write("summary", 4 + 5 * 2, storage::EncodeItem(config));
}

void WandbLogs(const std::string& dir) {
  std::filesystem::create_directories(dir);
  for (const char* name : {"whole", "torn", "blocks"}) {
    const std::string path = dir + "/" + name;
    std::filesystem::remove(path);
    const auto writer = wandb_log::LogWriter::Create(path);
    MUST(writer.ok());
    MUST((*writer)->Append("\x08\x01").ok());
    MUST((*writer)->Append(name == std::string("blocks") ? std::string(70000, 'x') : "x").ok());
    MUST((*writer)->Flush(/*sync=*/false).ok());
    if (name == std::string("torn")) std::filesystem::resize_file(path, (*writer)->end() - 1);
  }
}

void WandbValues(const std::string& dir) {
  wandb_internal::Record history;
  history.mutable_history()->mutable_step()->set_num(7);
  history.mutable_history()->add_item()->set_key("loss");
  history.mutable_history()->mutable_item(0)->set_value_json("0.5");
  history.mutable_history()->add_item()->add_nested_key("a");
  history.mutable_history()->mutable_item(1)->add_nested_key("b");
  history.mutable_history()->mutable_item(1)->set_value_json("{\"c\": [NaN, \"x\"]}");
  Write(dir, "history", history.SerializeAsString());
  wandb_internal::Record config;
  config.mutable_config()->add_update()->set_key("lr");
  config.mutable_config()->mutable_update(0)->set_value_json("{\"x\": 1e400}");
  config.mutable_config()->add_remove()->add_nested_key("lr");
  Write(dir, "config", config.SerializeAsString());
}

}  // namespace
}  // namespace ranklog::fuzz

int main(int argc, char** argv) {
  if (argc != 2) {
    fputs("Usage: fuzz_seeds DIR\n", stderr);
    return 2;
  }
  const std::string dir = argv[1];
  ranklog::fuzz::Rings(dir + "/ring");
  ranklog::fuzz::Messages(dir + "/messages");
  ranklog::fuzz::Blobs(dir + "/blobs");
  ranklog::fuzz::WandbValues(dir + "/values");
  ranklog::fuzz::WandbLogs(dir + "/wandb_log");
  return 0;
}
