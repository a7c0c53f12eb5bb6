// Binds libranklog.so and the portable programs to old versions of what glibc and libstdc++ offer,
// so that they start where these are older than where they were built. Compiled with
// -DRANKLOG_PORTABLE=ON only, for x86-64: other machines have other base versions.
//
// The linker takes the newest version of a function. Each name below is a hidden symbol of the
// binary instead, which all of it uses. tests/portable/symbols.cmake fails where one is missing.

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <new>

#include "client/portable/clock_wait.h"

// Defines the hidden function `name`, which goes on to `target`, a function of glibc with a
// version. A jump takes any arguments and leaves no frame, so this needs no prototype and no unwind
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

// Since 2.29 these report errors in another way, which nobody here reads.
RANKLOG_FORWARD("exp", "", "exp@GLIBC_2.2.5");
RANKLOG_FORWARD("log", "", "log@GLIBC_2.2.5");
RANKLOG_FORWARD("log2", "", "log2@GLIBC_2.2.5");
RANKLOG_FORWARD("pow", "", "pow@GLIBC_2.2.5");

// Since 2.33 these are functions; before, headers called functions with the version of the struct,
// which is 1 for ever.
#define RANKLOG_SHIFT_ARGUMENTS "mov %rsi, %rdx\nmov %rdi, %rsi\nmov $1, %edi\n"
RANKLOG_FORWARD("stat", RANKLOG_SHIFT_ARGUMENTS, "__xstat@GLIBC_2.2.5");
RANKLOG_FORWARD("fstat", RANKLOG_SHIFT_ARGUMENTS, "__fxstat@GLIBC_2.2.5");
RANKLOG_FORWARD("lstat", RANKLOG_SHIFT_ARGUMENTS, "__lxstat@GLIBC_2.2.5");
RANKLOG_FORWARD("stat64", RANKLOG_SHIFT_ARGUMENTS, "__xstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("fstat64", RANKLOG_SHIFT_ARGUMENTS, "__fxstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("lstat64", RANKLOG_SHIFT_ARGUMENTS, "__lxstat64@GLIBC_2.2.5");
RANKLOG_FORWARD("fstatat", "mov %rcx, %r8\nmov %rdx, %rcx\n" RANKLOG_SHIFT_ARGUMENTS,
                "__fxstatat@GLIBC_2.4");

// 2.32 and 2.34 moved these to libc from libpthread and libdl, which the library still names.
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

// Looked up while the library is loaded: later, dlsym() waits for whoever loads another library,
// and that one may wait for the thread that waits here.
using ClockWait = int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*);
const auto clock_wait = reinterpret_cast<ClockWait>(dlsym(RTLD_DEFAULT, "pthread_cond_clockwait"));

}  // namespace

extern "C" {

// Since 2.32: whether atomic operations may be left out. Never.
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

// Since 2.30. std::condition_variable waits by it.
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t* condition,
                                                                 pthread_mutex_t* mutex,
                                                                 clockid_t clock,
                                                                 const timespec* deadline) {
  if (clock_wait != nullptr) return clock_wait(condition, mutex, clock, deadline);
  return ranklog::internal::WaitForAWhile(condition, mutex, clock, *deadline);
}

}  // extern "C"

// std::__throw_bad_array_new_length(), since GCC 11. Weak: a program has it in its own libstdc++.
[[noreturn]] __attribute__((weak, visibility("hidden"))) void ThrowBadArrayNewLength() asm(
    "_ZSt28__throw_bad_array_new_lengthv");
void ThrowBadArrayNewLength() { throw std::bad_array_new_length(); }
