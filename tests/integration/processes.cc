#include "tests/integration/processes.h"

#include <filesystem>
#include <sstream>

#include "tests/support/file_content.h"

namespace ranklog::testing {

std::string ReadProc(pid_t pid, const std::string& file) {
  return FileContent("/proc/" + std::to_string(pid) + "/" + file);
}

std::string StatField(pid_t pid, int index) {
  const std::string stat = ReadProc(pid, "stat");
  const size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return "";
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  for (int i = 0; i <= index; ++i) fields >> field;
  return field;
}

bool Runs(pid_t pid) {
  const std::string state = StatField(pid, 0);
  return !state.empty() && state != "Z" && state != "X";
}

std::vector<pid_t> ProcessesWith(const std::string& argument) {
  std::vector<pid_t> pids;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid <= 0 || !Runs(pid)) continue;
    const std::string line = '\0' + ReadProc(pid, "cmdline");
    if (line.find('\0' + argument + '\0') != std::string::npos) pids.push_back(pid);
  }
  return pids;
}

}  // namespace ranklog::testing
