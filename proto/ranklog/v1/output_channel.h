// The channels on which a program prints while its output is read: by `ranklog exec`, and by the reader
// of Run::CaptureConsole().

#ifndef RANKLOG_V1_OUTPUT_CHANNEL_H_
#define RANKLOG_V1_OUTPUT_CHANNEL_H_

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

namespace ranklog::v1 {

// What is written to `writes` can be read from `reads`, byte by byte. Both are closed by exec().
struct OutputChannel {
  int reads = -1;
  int writes = -1;
};

// The default of 64 KiB is soon full if the reader gets no processor for a while.
inline constexpr int kOutputPipeBytes = 1 << 20;

inline void CloseOutputChannel(OutputChannel* channel) {
  if (channel->reads >= 0) close(channel->reads);
  if (channel->writes >= 0) close(channel->writes);
  *channel = OutputChannel();
}

// Makes a terminal of the same size where `like` is a terminal, and a pipe otherwise. False: errno has
// the reason.
inline bool MakeOutputChannel(int like, OutputChannel* channel) {
  if (isatty(like) != 1) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return false;
    *channel = {ends[0], ends[1]};
    fcntl(ends[1], F_SETPIPE_SZ, kOutputPipeBytes);  // may fail: then it is smaller
    return true;
  }
  char name[128];
  channel->reads = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  if (channel->reads >= 0 && grantpt(channel->reads) == 0 && unlockpt(channel->reads) == 0 &&
      ptsname_r(channel->reads, name, sizeof name) == 0) {
    channel->writes = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
  }
  if (channel->writes < 0) {
    const int error = errno;
    CloseOutputChannel(channel);
    errno = error;
    return false;
  }
  termios mode{};
  if (tcgetattr(channel->writes, &mode) == 0) {
    mode.c_oflag &= ~static_cast<tcflag_t>(OPOST);
    mode.c_lflag &= ~static_cast<tcflag_t>(ECHO | ECHONL);
    tcsetattr(channel->writes, TCSANOW, &mode);
  }
  winsize size{};
  if (ioctl(like, TIOCGWINSZ, &size) == 0) ioctl(channel->writes, TIOCSWINSZ, &size);
  return true;
}

// Whether both descriptors are the same file or terminal.
inline bool AreSameFile(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

}  // namespace ranklog::v1

#endif  // RANKLOG_V1_OUTPUT_CHANNEL_H_
