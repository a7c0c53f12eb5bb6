// Binds libranklog.so and the portable programs to old symbol versions of glibc and libstdc++, so
// that they start on systems with older libraries. Compiled only with -DRANKLOG_PORTABLE=ON, and
// only for x86-64: other machines have other base versions.
//
// The linker takes the newest version of a function. Instead, each name below is a hidden symbol of
// the binary, and all its code uses it. tests/portable/symbols.cmake fails if a name is missing.

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "client/portable/clock_wait.h"

// Defines the hidden function `name`, which jumps to `target`, a versioned function of glibc. A
// jump passes on any arguments and leaves no frame, so it needs no prototype and no unwind
// information.
#define RANKLOG_FORWARD(name, prepare, target)                                                    \
  asm(".pushsection .text.ranklog_" name                                                          \
      ", \"ax\", @progbits\n"                                                                     \
      ".symver ranklog_old_" name ", " target                                                     \
      "\n"                                                                                        \
      ".globl " name "\n.hidden " name "\n.type " name ", @function\n" name ": endbr64\n" prepare \
      " jmp *ranklog_old_" name                                                                   \
      "@GOTPCREL(%rip)\n"                                                                         \
      ".size " name ", . - " name "\n.popsection")

// Since 2.29 these functions report errors differently, but our code does not read the errors.
RANKLOG_FORWARD("exp", "", "exp@GLIBC_2.2.5");
RANKLOG_FORWARD("log", "", "log@GLIBC_2.2.5");
RANKLOG_FORWARD("log2", "", "log2@GLIBC_2.2.5");
RANKLOG_FORWARD("pow", "", "pow@GLIBC_2.2.5");

// Functions since 2.33. Before that, headers called functions with the version of the struct as an
// argument, which is always 1.
#define RANKLOG_SHIFT_ARGUMENTS "mov %rsi, %rdx\nmov %rdi, %rsi\nmov $1, %edi\n"
RANKLOG_FORWARD("stat", RANKLOG_SHIFT_ARGUMENTS, "__xstat@GLIBC_2.2.5");
RANKLOG_FORWARD("fstat", RANKLOG_SHIFT_ARGUMENTS, "__fxstat@GLIBC_2.2.5");
RANKLOG_FORWARD("lstat", RANKLOG_SHIFT_ARGUMENTS, "__lxstat@GLIBC_2.2.5");
RANKLOG_FORWARD("stat64", RANKLOG_SHIFT_ARGUMENTS, "__xstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("fstat64", RANKLOG_SHIFT_ARGUMENTS, "__fxstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("lstat64", RANKLOG_SHIFT_ARGUMENTS, "__lxstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("fstatat", "mov %rcx, %r8\nmov %rdx, %rcx\n" RANKLOG_SHIFT_ARGUMENTS,
                "__fxstatat@GLIBC_2.4");

// 2.32 and 2.34 moved these functions to libc from libpthread and libdl. The library still names
// both.
RANKLOG_FORWARD("dladdr", "", "dladdr@GLIBC_2.2.5");
RANKLOG_FORWARD("dlclose", "", "dlclose@GLIBC_2.2.5");
RANKLOG_FORWARD("dlerror", "", "dlerror@GLIBC_2.2.5");
RANKLOG_FORWARD("dlopen", "", "dlopen@GLIBC_2.2.5");
RANKLOG_FORWARD("dlsym", "", "dlsym@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_attr_setstacksize", "", "pthread_attr_setstacksize@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_create", "", "pthread_create@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_detach", "", "pthread_detach@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_getspecific", "", "pthread_getspecific@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_join", "", "pthread_join@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_key_create", "", "pthread_key_create@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_key_delete", "", "pthread_key_delete@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_mutex_trylock", "", "pthread_mutex_trylock@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_mutexattr_destroy", "", "pthread_mutexattr_destroy@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_mutexattr_init", "", "pthread_mutexattr_init@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_mutexattr_settype", "", "pthread_mutexattr_settype@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_once", "", "pthread_once@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_rwlock_destroy", "", "pthread_rwlock_destroy@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_rwlock_init", "", "pthread_rwlock_init@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_rwlock_rdlock", "", "pthread_rwlock_rdlock@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_rwlock_unlock", "", "pthread_rwlock_unlock@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_rwlock_wrlock", "", "pthread_rwlock_wrlock@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_setname_np", "", "pthread_setname_np@GLIBC_2.12");
RANKLOG_FORWARD("pthread_setspecific", "", "pthread_setspecific@GLIBC_2.2.5");
RANKLOG_FORWARD("pthread_sigmask", "", "pthread_sigmask@GLIBC_2.2.5");

namespace {

// Looked up while the library is loaded. Later, dlsym() would wait for a thread that loads another
// library, and that thread may wait for the thread that waits here.
using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
const auto clock_wait = reinterpret_cast<ClockWait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));

}  // namespace

extern "C" {

// Since 2.32: whether atomic operations may be left out. Never.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Since 2.36. std::random_device reads it.
__attribute__((visibility("hidden"))) uint32_t arc4random() {
  uint32_t random = 0;
  if (getentropy(&random, sizeof random) != 0) abort();
  return random;
}

// Since 2.30. std::condition_variable waits with it.
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition,
                                                                 pthread_mutex_t* mutex,
                                                                 clockid_t clock,
                                                                 const timespec* deadline) {
  if (clock_wait != nullptr) return clock_wait(condition, mutex, clock, deadline);
  return ranklog::internal::WaitForAWhile(condition, mutex, clock, *deadline);
}

}  // extern "C"

// std::__throw_bad_array_new_length(), since GCC 11. Weak, because a program has it in its own
// libstdc++.
[[noreturn]] __attribute__((weak, visibility("hidden"))) void ThrowBadArrayNewLength() asm(
    "_ZSt28__throw_bad_array_new_lengthv");
void ThrowBadArrayNewLength() { throw std::bad_array_new_length(); }
