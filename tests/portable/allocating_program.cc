// A trainer with its own operator new and delete, which handle only each other's memory: none of
// libranklog.so's. Exit code 0 if its rows are durable.

#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <new>
#include <string>
#include <vector>

#include "ranklog/ranklog.h"

namespace {

constexpr uint64_t kMark = 0x72616e6b6c6f6721;

struct alignas(16) Head {
  uint64_t mark;
};

void* Allocate(size_t size) {
  auto* const head = static_cast<Head*>(malloc(sizeof(Head) + size));
  if (head == nullptr) abort();
  head->mark = kMark;
  return head + 1;
}

void Free(void* memory) {
  if (memory == nullptr) return;
  Head* const head = static_cast<Head*>(memory) - 1;
  if (head->mark != kMark) abort();
  head->mark = 0;
  free(head);
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete[](void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete[](void* memory, size_t) noexcept { Free(memory); }

int main() {
  ranklog::Settings settings = ranklog::Settings::FromEnvironment();
  settings.name = std::string(100, 'n');
  settings.tags = {std::string(100, 't'), std::string(200, 't')};
  ranklog::Settings wrong = settings;
  wrong.run_id = "not an id";
  if (wrong.Validate().empty()) return 1;
  ranklog::Run run = ranklog::Init(settings);
  if (run.Config({{"\xff", 1}}) || run.stats().last_error.empty()) return 2;
  if (!run.Config({{"list", ranklog::Value::List({std::string(100, 'c'), 1, 2.5})}})) return 3;
  for (int step = 0; step < 1000; ++step) {
    if (!run.Log({{"loss", step}, {"text", std::string(100, 'x')}}, step)) return 4;
  }
  return run.Finish(0) == ranklog::FlushResult::kDurable ? 0 : 5;
}
