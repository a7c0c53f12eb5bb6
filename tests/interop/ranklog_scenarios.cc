// One process of a scenario, through libranklog: performs the calls of a file as the environment's
// rank. sdk_scenarios.py performs the same calls with the official SDK; scenarios.py has the calls.
//
//   ranklog-scenarios FILE
//
// Prints {"error": TEXT}, with an empty text if nothing was wrong with the run.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "ranklog/ranklog.h"

namespace ranklog {
namespace {

using nlohmann::json;

// JSON has no numbers for these.
Value Text(const std::string& text) {
  if (text == "$nan") return std::numeric_limits<double>::quiet_NaN();
  if (text == "$inf") return std::numeric_limits<double>::infinity();
  if (text == "$-inf") return -std::numeric_limits<double>::infinity();
  return text;
}

Value ValueOf(const json& from);

std::vector<Value::Field> Fields(const json& object) {
  std::vector<Value::Field> fields;
  for (const auto& [key, value] : object.items()) fields.emplace_back(key, ValueOf(value));
  return fields;
}

Value ValueOf(const json& from) {
  switch (from.type()) {
    case json::value_t::boolean:
      return from.get<bool>();
    case json::value_t::number_integer:
      return from.get<int64_t>();
    case json::value_t::number_unsigned:
      return from.get<uint64_t>();
    case json::value_t::number_float:
      return from.get<double>();
    case json::value_t::string:
      return Text(from.get<std::string>());
    case json::value_t::array: {
      std::vector<Value> list;
      for (const json& item : from) list.push_back(ValueOf(item));
      return Value::List(std::move(list));
    }
    case json::value_t::object:
      if (from.contains("$counts")) {
        return Histogram::FromCounts(from["$counts"].get<std::vector<int64_t>>(),
                                     from["$edges"].get<std::vector<double>>());
      }
      return Value::Object(Fields(from));
    default:
      return Value();
  }
}

Image ImageOf(const json& from) {
  const std::string digits = from["$png"];
  std::string png;
  for (size_t at = 0; at < digits.size(); at += 2) {
    png.push_back(static_cast<char>(std::stoi(digits.substr(at, 2), nullptr, 16)));
  }
  return Image(png, from.value("caption", ""));
}

Images ImagesOf(const json& from) {
  std::vector<Image> images;
  for (const json& image : from) images.push_back(ImageOf(image));
  return Images(std::move(images));
}

Table TableOf(const json& from) {
  std::vector<std::vector<Value>> rows;
  for (const json& row : from["$rows"]) {
    rows.emplace_back();
    for (const json& value : row) rows.back().push_back(ValueOf(value));
  }
  return Table(from["$columns"].get<std::vector<std::string>>(), std::move(rows));
}

using Loggable = std::variant<Value, Image, Images, Table, Html>;

Loggable LoggableOf(const json& from) {
  if (from.is_array() && !from.empty() && from[0].contains("$png")) return ImagesOf(from);
  if (from.contains("$png")) return ImageOf(from);
  if (from.contains("$columns")) return TableOf(from);
  if (from.contains("$html")) return Html(from["$html"].get<std::string>());
  return ValueOf(from);
}

void Log(Run& run, const json& call) {
  std::vector<std::pair<std::string, Loggable>> values;
  for (const auto& [key, value] : call["log"].items()) {
    values.emplace_back(key, LoggableOf(value));
  }
  std::vector<MediaMetric> row;
  for (const auto& [key, value] : values) {
    std::visit([&](const auto& held) { row.emplace_back(key, held); }, value);
  }
  if (call.contains("step")) {
    run.Log(row, call["step"].get<int64_t>());
  } else {
    run.Log(row);
  }
}

void Define(Run& run, const json& metric) {
  MetricOptions options;
  options.step_metric = metric.value("step_metric", "");
  options.step_sync = metric.value("step_sync", true);
  options.hidden = metric.value("hidden", false);
  options.summary = metric.value("summary", std::vector<std::string>());
  run.DefineMetric(metric["name"].get<std::string>(), options);
}

// Logs an artifact of the call's files, or saves one of them.
void LogFiles(Run& run, const json& call) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("ranklog-scenario-" + std::to_string(getpid()));
  for (const auto& [name, text] : call["files"].items()) {
    std::filesystem::create_directories((directory / name).parent_path());
    std::ofstream(directory / name) << text.get<std::string>();
  }
  Upload upload;
  if (call.contains("save")) {
    const std::string policy = call.value("policy", "now");
    const SavePolicy when = policy == "end"    ? SavePolicy::kEnd
                            : policy == "live" ? SavePolicy::kLive
                                               : SavePolicy::kNow;
    upload = run.Save(directory / call["save"].get<std::string>(), "", when);
    if (when == SavePolicy::kEnd) return;  // the file must be there then
  } else if (call.contains("code")) {
    upload = run.LogCode(directory, call["code"].get<std::string>());
  } else {
    const json& given = call["artifact"];
    Artifact artifact;
    artifact.name = given["name"];
    artifact.type = given["type"];
    artifact.paths = {directory};
    artifact.aliases = given["aliases"].get<std::vector<std::string>>();
    artifact.description = given.value("description", "");
    artifact.references = given.value("references", std::vector<std::string>());
    artifact.metadata = Fields(given.value("metadata", json::object()));
    artifact.incremental = given.value("incremental", false);
    upload = run.LogArtifact(artifact);
  }
  if (!upload.Wait()) std::fputs(upload.error().c_str(), stderr);
  std::filesystem::remove_all(directory);
}

void Alert(Run& run, const json& call) {
  AlertOptions alert;
  alert.title = call["title"].get<std::string>();
  alert.text = call["text"].get<std::string>();
  const std::string level = call.value("level", "INFO");
  if (level != "INFO") alert.level = level == "WARN" ? AlertLevel::kWarn : AlertLevel::kError;
  if (call.contains("wait")) alert.wait = std::chrono::seconds(call["wait"].get<int>());
  run.Alert(alert);
}

void Report(const Run& run) {
  std::puts(json({{"error", run.stats().last_error}}).dump().c_str());
  std::fflush(stdout);
}

// Performs a call. Returns false after the one that ends the process's part of the run.
bool Perform(Run& run, const json& call) {
  if (call.contains("log")) Log(run, call);
  if (call.contains("config")) run.Config(Fields(call["config"]));
  if (call.contains("summary")) run.Summary(Fields(call["summary"]));
  if (call.contains("define")) Define(run, call["define"]);
  if (call.contains("files")) LogFiles(run, call);
  if (call.contains("use")) run.UseArtifact(call["use"].get<std::string>());
  if (call.contains("preempt")) run.MarkPreempting();
  if (call.contains("alert")) Alert(run, call["alert"]);
  if (call.contains("print")) {
    static const bool captured = run.CaptureConsole();  // at the first one, as the SDK does at init
    if (!captured) std::fputs("the console is not captured\n", stderr);
    std::puts(call["print"].get<std::string>().c_str());
  }
  if (call.contains("pause")) {
    std::this_thread::sleep_for(std::chrono::duration<double>(call["pause"].get<double>()));
  }
  if (call.contains("await")) {
    const std::string file = call["await"].get<std::string>();
    while (!std::filesystem::exists(file)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  if (call.contains("kill")) raise(SIGKILL);
  if (call.contains("exit")) std::exit(call["exit"].get<int>());
  if (!call.contains("finish")) return true;
  run.Finish(call["finish"].get<int>());
  Report(run);
  return false;
}

}  // namespace
}  // namespace ranklog

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const nlohmann::json job = nlohmann::json::parse(std::ifstream(argv[1]));
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  for (const nlohmann::json& call : job["calls"]) {
    if (!ranklog::Perform(run, call)) return 0;
  }
}
