// The symbols that a portable program needs in addition to old_symbols.cc, because it has its own
// entry point and starts other programs.

#include <dirent.h>
#include <dlfcn.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>

// For `strings`: the versions of the packages inside.
extern "C" __attribute__((used, retain, visibility("hidden"))) const char ranklog_static_parts[] =
    RANKLOG_STATIC_PARTS;

extern "C" {

// Since 2.30.
__attribute__((visibility("hidden"))) pid_t gettid() {
  return static_cast<pid_t>(syscall(SYS_gettid));
}

// Since 2.32. Without it, a signal is shown only by its number.
__attribute__((visibility("hidden"))) const char* sigabbrev_np(int signal) {
  static const auto name =
      reinterpret_cast<const char* (*)(int)>(dlsym(RTLD_DEFAULT, "sigabbrev_np"));
  return name == nullptr ? nullptr : name(signal);
}

// Since 2.34. Without it, the descriptors that are open now are closed one by one.
__attribute__((visibility("hidden"))) int posix_spawn_file_actions_addclosefrom_np(
    posix_spawn_file_actions_t* actions, int from) {
  static const auto add = reinterpret_cast<int (*)(posix_spawn_file_actions_t*, int)>(
      dlsym(RTLD_DEFAULT, "posix_spawn_file_actions_addclosefrom_np"));
  if (add != nullptr) return add(actions, from);
  DIR* const open = opendir("/proc/self/fd");
  if (open == nullptr) return 0;  // exec closes all of ours
  int error = 0;
  while (const dirent* const entry = readdir(open)) {
    const int fd = std::atoi(entry->d_name);  // 0 for "." and ".."
    if (error == 0 && fd >= from) error = posix_spawn_file_actions_addclose(actions, fd);
  }
  closedir(open);
  return error;
}

// Since 2.34, __libc_start_main runs the program's constructors itself. Before that, the program
// passes it a function that runs them. A program that passes one works with both.
using Main = int (*)(int, char**, char**);
using Constructor = void (*)(int, char**, char**);
int StartMain(Main main, int argc, char** argv, void (*init)(), void (*fini)(), void (*rtld_fini)(),
              void* stack_end) asm("ranklog_old_libc_start_main");
asm(".symver ranklog_old_libc_start_main, __libc_start_main@GLIBC_2.2.5");

extern __attribute__((visibility("hidden"))) Constructor __preinit_array_start[];
extern __attribute__((visibility("hidden"))) Constructor __preinit_array_end[];
extern __attribute__((visibility("hidden"))) Constructor __init_array_start[];
extern __attribute__((visibility("hidden"))) Constructor __init_array_end[];
void _init();

static void RunConstructors(int argc, char** argv, char** environment) {
  for (Constructor* f = __preinit_array_start; f < __preinit_array_end; ++f) {
    (*f)(argc, argv, environment);
  }
  _init();
  for (Constructor* f = __init_array_start; f < __init_array_end; ++f)
    (*f)(argc, argv, environment);
}

__attribute__((visibility("hidden"))) int __libc_start_main(Main main, int argc, char** argv,
                                                            void (*)(), void (*)(),
                                                            void (*rtld_fini)(), void* stack_end) {
  return StartMain(main, argc, argv, reinterpret_cast<void (*)()>(RunConstructors), nullptr,
                   rtld_fini, stack_end);
}

}  // extern "C"
