#include "trainer/data/tokenizer.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ranklog::trainer {
namespace {

constexpr int64_t kFewestPieces = 258;  // 256 bytes, an unknown one, and one to learn
constexpr int64_t kMostPieces = 65536;  // the values of 16 bits

// The path of the program with SentencePiece, relative to this program's folder.
std::string BpeProgram() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / RANKLOG_BPE).lexically_normal();
}

// A child process whose output is read line by line.
class PipedChild {
 public:
  explicit PipedChild(const std::vector<std::string>& command) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      error_ = errno;
      return;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    error_ = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
  }
  ~PipedChild() { Wait(); }
  PipedChild(const PipedChild&) = delete;
  PipedChild& operator=(const PipedChild&) = delete;

  int error() const { return error_; }  // of its start; 0: it started
  bool Next(std::string& line) {
    char* text = nullptr;
    size_t size = 0;
    const ssize_t got = getline(&text, &size, output_);
    line.assign(text, got > 0 ? got - (text[got - 1] == '\n') : 0);
    free(text);
    return got > 0;
  }
  // Its status, as waitpid() returns it.
  int Wait() {
    if (output_ != nullptr) fclose(std::exchange(output_, nullptr));
    if (error_ == 0 && pid_ > 0) waitpid(std::exchange(pid_, -1), &status_, 0);
    return status_;
  }

 private:
  pid_t pid_ = -1;
  int error_ = 0;
  int status_ = 0;
  FILE* output_ = nullptr;
};

}  // namespace

absl::StatusOr<Tokenizer> Tokenizer::Parse(const std::string& text) {
  if (text == "bytes") return Tokenizer{};
  absl::string_view number = text;
  Tokenizer tokenizer;
  if (absl::ConsumePrefix(&number, "bpe:") && absl::SimpleAtoi(number, &tokenizer.pieces) &&
      tokenizer.pieces >= kFewestPieces && tokenizer.pieces <= kMostPieces) {
    return tokenizer;
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown tokenizer '", text,
                                                 "'; use bytes, or bpe:N with N from ",
                                                 kFewestPieces, " to ", kMostPieces));
}

std::string Tokenizer::name() const { return pieces == 0 ? "bytes" : absl::StrCat("bpe:", pieces); }

absl::Status WriteBpeTokens(const std::string& path, const std::string& name,
                            const Tokenizer& tokenizer, const std::string& model,
                            const std::string& tokens, DataProgress& progress) {
  const std::string program = BpeProgram();
  if (access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot use the tokenizer ", tokenizer.name(), ": ", program,
                     " is missing; install libsentencepiece-dev and build again, or use "
                     "--tokenizer bytes"));
  }
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(path, error);
  progress.Print(absl::StrCat("training the tokenizer ", tokenizer.name(), " on ", name, ", ",
                              bytes, " bytes"));
  PipedChild child({program, path, absl::StrCat(tokenizer.pieces), model, tokens});
  if (child.error() != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot start ", program, ": ", std::strerror(child.error())));
  }
  std::string line, reason;
  while (child.Next(line)) {
    absl::string_view rest = line;
    uint64_t done = 0;
    if (absl::ConsumePrefix(&rest, "at ") && absl::SimpleAtoi(rest, &done)) {
      progress.Show(absl::StrCat("tokenizing ", name), done, bytes);
    } else if (absl::ConsumePrefix(&rest, "error: ")) {
      reason = std::string(rest);
    }
  }
  const int status = child.Wait();
  if (status == 0) return absl::OkStatus();
  if (WIFSIGNALED(status)) reason = absl::StrCat("it was killed by signal ", WTERMSIG(status));
  return absl::InvalidArgumentError(
      absl::StrCat("cannot train the tokenizer ", tokenizer.name(), " on ", name, ": ", reason));
}

}  // namespace ranklog::trainer
