// Loads a module, and libranklog.so with it, while threads already run. Then these threads, the
// main thread and later threads log.
//
//   late_program MODULE

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  constexpr int kThreads = 4;
  using LogRows = bool (*)(int);
  std::atomic<LogRows> log_rows = nullptr;
  std::atomic<int> durable = 0;
  const auto log = [&] {
    log_rows.wait(nullptr);
    durable += log_rows.load()(10) ? 1 : 0;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(log);
  void* const module = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (module == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    _Exit(3);
  }
  log_rows = reinterpret_cast<LogRows>(dlsym(module, "LogRows"));
  log_rows.notify_all();
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(log);
  log();
  for (std::thread& thread : threads) thread.join();
  printf("%d threads durable\n", durable.load());
  dlclose(module);
  return durable == 2 * kThreads + 1 ? 0 : 1;
}
