// Runs a program as on a kernel before Linux 5.9, or in a container whose filter refuses
// close_range(): the call fails.
//
//   without_close_range ERRNO PROGRAM [ARGUMENT...]

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto error = static_cast<__u32>(atoi(argv[1]));
  sock_filter instructions[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 125;
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return 125;
  // Checks that the filter is in place.
  if (syscall(SYS_close_range, ~0U, ~0U, 0U) == 0 || errno != static_cast<int>(error)) return 125;
  execvp(argv[2], argv + 2);
  return 127;
}
