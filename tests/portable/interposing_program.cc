// A trainer that exports its own functions under names of Protobuf, gRPC, c-ares and zlib.
// libranklog.so must not call any of them. Exit code 0 if its rows and its config are durable.

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <chrono>
#include <string>

#include "ranklog/ranklog.h"

namespace {

[[noreturn]] void Called(const char* name) {
  const std::string text = std::string("libranklog.so called the program's ") + name + "\n";
  if (write(STDERR_FILENO, text.data(), text.size()) < 0) _exit(9);
  abort();
}

}  // namespace

namespace google::protobuf {

class MessageLite {
 public:
  bool ParseFromString(const std::string& data);
  bool SerializeToString(std::string* output) const;
};

bool MessageLite::ParseFromString(const std::string&) { Called("ParseFromString"); }
bool MessageLite::SerializeToString(std::string*) const { Called("SerializeToString"); }

}  // namespace google::protobuf

extern "C" {

void grpc_init() { Called("grpc_init"); }
int grpc_is_initialized() { Called("grpc_is_initialized"); }
int ares_library_init(int) { Called("ares_library_init"); }
int inflate(void*, int) { Called("inflate"); }
int deflate(void*, int) { Called("deflate"); }

}  // extern "C"

int main() {
  ranklog::Run run = ranklog::Init(ranklog::Settings::FromEnvironment());
  if (!run.Config({{"lr", 0.1}})) return 1;
  for (int step = 0; step < 10; ++step) {
    if (!run.Log({{"loss", step}}, step)) return 2;
  }
  if (run.Flush(std::chrono::seconds(20)) != ranklog::FlushResult::kDurable) return 3;
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 4;
}
