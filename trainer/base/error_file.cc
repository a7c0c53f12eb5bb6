#include "trainer/base/error_file.h"

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace ranklog::trainer {

std::string ErrorFileContent(std::string_view message, int rank, long unix_seconds) {
  const std::string text = "rank " + std::to_string(rank) + ": " + std::string(message);
  const nlohmann::json content = {
      {"message",
       {{"message", text},
        {"rank", rank},
        {"extraInfo", {{"py_callstack", text}, {"timestamp", std::to_string(unix_seconds)}}}}}};
  // The message of a library may not be UTF-8.
  return content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void WriteErrorFile(std::string_view message, int rank) {
  const char* path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  std::ofstream(path) << ErrorFileContent(message, rank, std::time(nullptr));
}

void WriteErrorFile(std::string_view message) {
  const char* rank = std::getenv("RANK");
  WriteErrorFile(message, rank == nullptr ? 0 : std::atoi(rank));
}

}  // namespace ranklog::trainer
