// Writes a `.wandb` log as the official client does, in a run directory of its own.

#ifndef TESTS_SERVICE_IMPORT_LOG_BUILDER_H_
#define TESTS_SERVICE_IMPORT_LOG_BUILDER_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "service/wandb_log/log_file.h"
#include "tests/support/status_matchers.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::testing {

class LogBuilder {
 public:
  using Values = std::vector<std::pair<std::string, std::string>>;  // keys and JSON

  static constexpr int64_t kStart = 1767322787;  // Unix time

  // The directory `name` in `parent`, with the log of run `id`.
  LogBuilder(const std::string& parent, const std::string& name, const std::string& id)
      : dir_(parent + "/" + name), path_(dir_ + "/run-" + id + ".wandb"), id_(id) {
    std::filesystem::create_directories(dir_ + "/files");
    auto writer = wandb_log::LogWriter::Create(path_);
    EXPECT_OK(writer);
    writer_ = *std::move(writer);
    wandb_internal::Record header;
    header.mutable_header()->mutable_version_info()->set_producer("0.31.0");
    Add(header);
  }

  const std::string& dir() const { return dir_; }
  const std::string& path() const { return path_; }

  LogBuilder& Add(wandb_internal::Record record) {
    record.set_num(++records_);
    EXPECT_OK(writer_->Append(record.SerializeAsString()));
    EXPECT_OK(writer_->Flush(/*sync=*/false));
    return *this;
  }
  // The first record of the run; `start` is in seconds after kStart. `resume`: it may continue another
  // part.
  LogBuilder& Run(const Values& config = {}, int64_t start = 0, bool resume = false) {
    wandb_internal::Record record;
    wandb_internal::RunRecord& run = *record.mutable_run();
    run.set_run_id(id_);
    run.set_project("gpt");
    run.set_entity("fake-team");
    run.set_host("node-1");
    run.set_resume(resume);
    run.mutable_start_time()->set_seconds(kStart + start);
    for (const auto& [key, json] : config) SetItem(key, json, run.mutable_config()->add_update());
    return Add(record);
  }
  LogBuilder& Row(int64_t step, const Values& values) {
    wandb_internal::Record record;
    auto& history = *record.mutable_history();
    for (const auto& [key, json] : values) SetItem(key, json, history.add_item());
    SetItem("_timestamp", std::to_string(kStart + step) + ".25", history.add_item());
    SetItem("_runtime", std::to_string(step) + ".125", history.add_item());
    SetItem("_step", std::to_string(step), history.add_item());
    history.mutable_step()->set_num(step);
    return Add(record);
  }
  // Rows with the key loss, of the steps [from, to).
  LogBuilder& Rows(int64_t from, int64_t to) {
    for (int64_t step = from; step < to; ++step) Row(step, {{"loss", std::to_string(step) + ".5"}});
    return *this;
  }
  LogBuilder& Config(const Values& values) {
    wandb_internal::Record record;
    for (const auto& [key, json] : values) {
      SetItem(key, json, record.mutable_config()->add_update());
    }
    return Add(record);
  }
  LogBuilder& Summary(const Values& values) {
    wandb_internal::Record record;
    for (const auto& [key, json] : values) {
      SetItem(key, json, record.mutable_summary()->add_update());
    }
    return Add(record);
  }
  // The times are in seconds after kStart.
  LogBuilder& Stats(int64_t time, const Values& values) {
    wandb_internal::Record record;
    record.mutable_stats()->mutable_timestamp()->set_seconds(kStart + time);
    for (const auto& [key, json] : values) {
      wandb_internal::StatsItem& item = *record.mutable_stats()->add_item();
      item.set_key(key);
      item.set_value_json(json);
    }
    return Add(record);
  }
  LogBuilder& Print(int64_t time, bool error, const std::string& text) {
    wandb_internal::Record record;
    wandb_internal::OutputRawRecord& output = *record.mutable_output_raw();
    output.set_output_type(error ? wandb_internal::OutputRawRecord::STDERR
                                 : wandb_internal::OutputRawRecord::STDOUT);
    output.mutable_timestamp()->set_seconds(kStart + time);
    output.set_line(text);
    return Add(record);
  }
  // Writes a file of the run.
  LogBuilder& File(const std::string& path, const std::string& content) {
    const std::filesystem::path file = dir_ + "/files/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::filesystem::remove(file);  // the earlier content stays where it was linked
    std::ofstream(file, std::ios::binary) << content;
    return *this;
  }
  using Policy = wandb_internal::FilesItem::PolicyType;
  LogBuilder& Saved(const std::string& path, Policy policy = wandb_internal::FilesItem::NOW) {
    wandb_internal::Record record;
    wandb_internal::FilesItem& file = *record.mutable_files()->add_files();
    file.set_path(path);
    file.set_policy(policy);
    return Add(record);
  }
  LogBuilder& Exit(int32_t code = 0) {
    wandb_internal::Record record;
    record.mutable_exit()->set_exit_code(code);
    return Add(record);
  }
  // The beginning of a record.
  LogBuilder& Torn() {
    std::ofstream(path_, std::ios::app | std::ios::binary) << std::string("\x01\x02\x03", 3);
    return *this;
  }

 private:
  // A ">" separates the names of a nested key.
  template <typename Item>
  static void SetItem(const std::string& key, const std::string& json, Item* item) {
    item->set_value_json(json);
    if (key.find('>') == std::string::npos) {
      item->set_key(key);
      return;
    }
    size_t from = 0;
    while (true) {
      const size_t end = key.find('>', from);
      item->add_nested_key(key.substr(from, end - from));
      if (end == std::string::npos) return;
      from = end + 1;
    }
  }

  const std::string dir_;
  const std::string path_;
  const std::string id_;
  int64_t records_ = 0;
  std::unique_ptr<wandb_log::LogWriter> writer_;
};

}  // namespace ranklog::testing

#endif  // TESTS_SERVICE_IMPORT_LOG_BUILDER_H_
