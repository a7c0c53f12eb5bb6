#include "service/daemon/process/journal.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/environment.h"

namespace ranklog::daemon {
namespace {

// Writes the priorities of syslog(3).
class PriorityFlag : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const tm&,
              spdlog::memory_buf_t& line) override {
    line.push_back(PriorityOf(message.level));
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<PriorityFlag>();
  }

 private:
  static char PriorityOf(spdlog::level::level_enum level) {
    switch (level) {
      case spdlog::level::critical:
        return '2';
      case spdlog::level::err:
        return '3';
      case spdlog::level::warn:
        return '4';
      case spdlog::level::info:
        return '6';
      default:
        return '7';
    }
  }
};

}  // namespace

bool GoesToJournal(int fd) {
  struct stat info {};
  return fstat(fd, &info) == 0 &&
         EnvironmentVariable("JOURNAL_STREAM") == absl::StrCat(info.st_dev, ":", info.st_ino);
}

void LogForJournal() {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<PriorityFlag>('*').set_pattern("<%*>%v");
  spdlog::set_formatter(std::move(formatter));
}

}  // namespace ranklog::daemon
