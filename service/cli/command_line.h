// The command line of `ranklog`. Subcommands declare their names, options and actions here. Only
// command_line.cc includes CLI11, whose templates take seconds to compile.
//
//   struct TailFlags { bool all = false; std::string format = "text"; };
//   absl::Status Tail(const Globals& globals, const TailFlags& flags);
//
//   auto [options, flags] = program.Add("tail", "show the last rows", "\nExamples: ...", Tail);
//   options.Add("--all", &flags.all, "all of a row");
//   options.Add("--format", &flags.format, "text or json", {.one_of = {"text", "json"}});

#ifndef SERVICE_CLI_COMMAND_LINE_H_
#define SERVICE_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace ranklog::cli {

struct Globals;

// Returns an error text for the value of an option, or an empty text if the value is valid. No
// option accepts an empty value.
using OptionCheck = std::string (*)(const std::string& text);

// An OptionCheck: the text must be a duration above zero, such as 30s or 1h30m.
std::string CheckDuration(const std::string& text);

// OptionChecks for a number: from 1, and from 0. CLI11 alone would convert -1 to the largest one.
std::string CheckPositive(const std::string& text);
std::string CheckCount(const std::string& text);

// An action's error for options that are wrong in combination. Exits with the code for wrong usage.
absl::Status WrongUsage(const std::string& message);

// Writes to std::cout, which may buffer the text. If that fails, the error has the reason.
absl::Status WriteOutput(absl::string_view text);
absl::Status FlushOutput();

// The valid values of an option. --help shows the type, the choices and the bounds.
struct OptionRules {
  const char* type = nullptr;            // name of the value in --help; null: TEXT, INT or UINT
  std::vector<std::string> one_of = {};  // the choices; empty: any text
  int least = 0;                         // lower bound of a number
  int most = 0;                          // upper bound; 0: no bounds
  OptionCheck check = nullptr;
  const char* excludes = nullptr;  // an option, added before, that excludes this one
  bool required = false;
};

class Options {
 public:
  // The target of a value. It must outlive Program::Main(), and holds the default until then.
  //   bool    a flag without a value
  //   vector  a positional takes all remaining words; an option may be given several times
  using Value = std::variant<bool*, std::string*, std::vector<std::string>*, int*, uint64_t*>;

  // `names` is "--all", "-n,--rows", or "RUN" for a positional. --help lists options in the order
  // of these calls. The texts must be literals.
  void Add(const char* names, Value value, const char* help, OptionRules rules = {});

 private:
  friend class Program;

  struct Option {
    const char* names;
    Value value;
    const char* help;
    OptionRules rules;
  };
  std::vector<Option> options_;
};

// The texts of the program; all must be literals.
struct ProgramTexts {
  const char* name;
  const char* version;
  const char* help;
  const char* footer;
  const char* command_footer;  // added after the footer of each subcommand
};

class Program {
 public:
  // `globals` must outlive the program. The chosen action receives it.
  Program(const ProgramTexts& texts, const Globals& globals) : texts_(texts), globals_(globals) {}

  // Options of all subcommands. They may come before or after the subcommand.
  Options& options() { return options_; }

  // Declares a subcommand with its action. Returns its options, and the flags that the action
  // receives: let the options point at the fields. Both live as long as the program.
  template <typename Flags>
  std::pair<Options&, Flags&> Add(const char* name, const char* help, const char* footer,
                                  absl::Status (*action)(const Globals&, const Flags&)) {
    const auto flags = std::make_shared<Flags>();  // a std::function must be copyable
    commands_.push_back({name, help, footer, Options(), [action, flags](const Globals& globals) {
                           return action(globals, *flags);
                         }});
    return {commands_.back().options, *flags};
  }

  // Parses the command line, runs the action of its subcommand, and prints errors to stderr.
  // Returns the exit code: 0 for success, --help and --version; 1 for a failure; 2 for wrong usage.
  int Main(int argc, char** argv) const;

 private:
  struct Command {
    const char* name;
    const char* help;
    const char* footer;
    Options options;
    std::function<absl::Status(const Globals&)> action;
  };

  const ProgramTexts texts_;
  const Globals& globals_;  // must outlive this object
  Options options_;
  std::deque<Command> commands_;  // a deque, so that references to elements stay valid
};

}  // namespace ranklog::cli

#endif  // SERVICE_CLI_COMMAND_LINE_H_
