#include "service/daemon/process/log_format.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/dup_filter_sink.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "service/deliver/json/json_writer.h"

namespace ranklog::daemon {
namespace {

constexpr std::chrono::minutes kRepeated(1);

// Writes the message as a JSON string, with its quotes.
class JsonFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const tm&,
              spdlog::memory_buf_t& line) override {
    std::string text;
    deliver::AppendString(absl::string_view(message.payload.data(), message.payload.size()), &text);
    line.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JsonFlag>();
  }
};

}  // namespace

void LogTo(spdlog::sink_ptr sink) {
  auto filter = std::make_shared<spdlog::sinks::dup_filter_sink_mt>(kRepeated);
  filter->add_sink(std::move(sink));
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("ranklogd", std::move(filter)));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
}

void LogAsJson() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<JsonFlag>('*').set_pattern(
      R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","pid":%P,"message":%*})");
  spdlog::set_formatter(std::move(formatter));
}

}  // namespace ranklog::daemon
