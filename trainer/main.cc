// ranklog-train: reads the command line, then starts ranks, or trains as one.

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ranklog/ranklog.h"
#include "trainer/base/error_file.h"
#include "trainer/base/malloc_settings.h"
#include "trainer/base/messages.h"
#include "trainer/base/stop_signal.h"
#include "trainer/base/threads.h"
#include "trainer/checkpoint/checkpoint_directory.h"
#include "trainer/data/data.h"
#include "trainer/options.h"
#include "trainer/parallel/launcher.h"
#include "trainer/parallel/placement.h"
#include "trainer/parallel/process_group.h"
#include "trainer/rank.h"
#include "trainer/run_log.h"

namespace ranklog::trainer {
namespace {

int Fail(const std::string& message, int exit_code) {
  WriteMessage("ranklog-train: " + message + "\n");
  WriteErrorFile(message);
  return exit_code;
}

// Opens closed standard descriptors on /dev/null. Otherwise a new file or socket could get the
// number of stderr, and so receive all messages. A closed pipe must not end a training.
void ProtectStandardStreams() {
  int opened = 0;
  do opened = open("/dev/null", O_RDWR);
  while (opened >= 0 && opened <= STDERR_FILENO);
  if (opened >= 0) close(opened);
  signal(SIGPIPE, SIG_IGN);
}

// Runs before the constructors of libraries, some of which open descriptors.
[[gnu::used,
  gnu::section(".preinit_array")]] void (*protect_standard_streams)() = ProtectStandardStreams;

// The command line of a rank: that of this process without --nproc-per-node.
std::vector<std::string> RankCommand(int argc, char** argv) {
  const std::string flag = "--nproc-per-node";
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  std::vector<std::string> command{error ? argv[0] : self.string()};
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == flag) {
      ++i;
    } else if (!argument.starts_with(flag + "=")) {
      command.push_back(argument);
    }
  }
  return command;
}

// Advice after a signal ended the training.
std::string HowToContinue(const Options& options) {
  if (options.save_dir.empty() || options.save_every == 0) return "";
  return "; " + AdviceAfterKill(options.save_dir + "/" + options.experiment_name);
}

int LaunchRanks(const Options& options, int argc, char** argv) {
  const absl::StatusOr<HostedStore> store = HostedStore::Serve();
  if (!store.ok()) return Fail(std::string(store.status().message()), 1);
  int received = 0;
  if (const char* const old = getenv("TORCHELASTIC_ERROR_FILE")) unlink(old);
  const absl::Status status = Launch({.command = RankCommand(argc, argv),
                                      .ranks = options.nproc_per_node,
                                      .master_port = store->port(),
                                      .is_cause = [&](int rank) { return store->HasFailed(rank); },
                                      .advice = [&] { return HowToContinue(options); }},
                                     &received);
  if (status.ok()) return 0;
  if (absl::IsUnavailable(status)) return kStoppedExitCode;  // the ranks printed the rest
  // A rank that ended by itself has written its reason.
  std::error_code none;
  const char* const error_file = getenv("TORCHELASTIC_ERROR_FILE");
  const bool told =
      error_file != nullptr && std::filesystem::file_size(error_file, none) > 0 && !none;
  if (told) {
    WriteMessage(absl::StrCat("ranklog-train: ", status.message(), "\n"));
  } else {
    Fail(std::string(status.message()), 1);
  }
  // Ends by the signal itself, so that a shell that runs this program in a loop ends the loop.
  if (received != 0) {
    AwaitMessages();
    signal(received, SIG_DFL);
    raise(received);
  }
  return 1;
}

int Main(int argc, char** argv) {
  const std::variant<Options, int> parsed = ParseCommandLine(argc, argv);
  if (const int* exit_code = std::get_if<int>(&parsed)) return *exit_code;
  Options options = std::get<Options>(parsed);
  // Gloo of LibTorch 2.8 prints its connections here, and would wait for the reader of a full pipe.
  std::cout.setstate(std::ios::badbit);

  Settings settings = Settings::FromEnvironment();
  ApplyOptions(options, settings);
  const std::string error = SettingsError(options, settings);
  if (!error.empty()) return Fail(error, 2);
  if (options.nproc_per_node == 0) {
    const absl::StatusOr<int> ranks = RanksOfGpus(FindGpus());
    if (!ranks.ok()) return Fail(std::string(ranks.status().message()), 1);
    options.nproc_per_node = *ranks;
  }
  const bool launches = options.nproc_per_node > 1;
  if (launches && settings.rank) {
    return Fail("--nproc-per-node starts ranks, but the environment makes this process rank " +
                    std::to_string(*settings.rank) + " of a job already: leave it to the launcher",
                2);
  }

  KeepFreedMemory();
  LimitThreads();
  const absl::Status found = CheckData(options.data);
  if (!found.ok()) return Fail(std::string(found.message()), 1);
  return launches ? LaunchRanks(options, argc, argv) : TrainAsRank(options, settings);
}

}  // namespace
}  // namespace ranklog::trainer

int main(int argc, char** argv) {
  const int exit_code = ranklog::trainer::Main(argc, argv);
  ranklog::trainer::AwaitMessages();
  return exit_code;
}
