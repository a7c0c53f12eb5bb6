#ifndef SERVICE_CLI_CONSOLE_READER_MAIN_H_
#define SERVICE_CLI_CONSOLE_READER_MAIN_H_

namespace ranklog::cli {

// The hidden command of this name: `ranklog console-reader HANDLE STREAMS`.
inline constexpr char kConsoleReader[] = "console-reader";
int ConsoleReaderMain(int argc, char** argv);

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_CONSOLE_READER_MAIN_H_
