#include "service/cli/command_line.h"

#include <errno.h>
#include <string.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "service/base/empty_flag.h"
#include "service/base/text/suggestion.h"
#include "service/cli/node/globals.h"

namespace ranklog::cli {
namespace {

constexpr int kDidNotWork = 1;
constexpr int kWrongUsage = 2;
constexpr char kEmptyValue[] = "its value is empty; is a shell variable unset?";
// Key of the payload that marks a WrongUsage().
constexpr char kWrongUsageUrl[] = "ranklog/wrong-usage";

std::vector<std::string> AllCommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> AllOptions(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

void PrintWrongUsage(const std::string& command, absl::string_view what) {
  std::cerr << command << ": " << what << (absl::EndsWith(what, "?") ? "" : ";") << " see `"
            << command << " --help`\n";
}

// Prints --help or --version, or the error of a wrong command line. For a missing or unknown
// command, CLI11 reports only that a "subcommand" is required, so the text is built here.
int Refuse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);
  const bool no_command =
      dynamic_cast<const CLI::RequiredError*>(&error) != nullptr && app.get_subcommands().empty();
  if (!no_command) {
    std::string command = app.get_name();
    std::vector<std::string> options = AllOptions(app);
    for (const CLI::App* chosen : app.get_subcommands()) {
      command += " " + chosen->get_name();
      for (std::string& option : AllOptions(*chosen)) options.push_back(std::move(option));
    }
    const std::vector<std::string> words = app.remaining(/*recurse=*/true);
    std::string what = error.what();
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !words.empty()) {
      const std::string word = NotUnderstood(words);
      if (word[0] != '-') {
        what = absl::StrCat("unexpected '", word, "'");
      } else if (std::count(options.begin(), options.end(), word) > 0) {
        what = absl::StrCat("options such as '", word, "' come after the command");
      } else {
        what = absl::StrCat("unknown option '", word, "'", DidYouMean(word, options));
      }
    }
    PrintWrongUsage(command, what);
    return kWrongUsage;
  }
  const std::vector<std::string> words = app.remaining();
  std::string what = "no command was given";
  if (!words.empty() && words[0].rfind('-', 0) == 0) {
    what = absl::StrCat("unknown option '", words[0], "'; options of a command come after it");
  } else if (!words.empty()) {
    what = absl::StrCat("unknown command '", words[0], "'", DidYouMean(words[0], AllCommands(app)));
  }
  if (what.back() != '?') what += ';';
  std::cerr << app.get_name() << ": " << what << " the commands are "
            << absl::StrJoin(AllCommands(app), ", ") << "; see `" << app.get_name() << " --help`\n";
  return kWrongUsage;
}

CLI::Option* AddOption(CLI::App& app, const char* names, const Options::Value& value,
                       const char* help) {
  if (const auto* flag = std::get_if<bool*>(&value)) return app.add_flag(names, **flag, help);
  if (const auto* texts = std::get_if<std::vector<std::string>*>(&value)) {
    CLI::Option* option = app.add_option(names, **texts, help);
    if (option->get_positional()) return option;
    // One value per use of the option, because the next word may be a positional.
    return option->expected(1)->allow_extra_args(false)->multi_option_policy(
        CLI::MultiOptionPolicy::TakeAll);
  }
  if (const auto* number = std::get_if<int*>(&value)) return app.add_option(names, **number, help);
  if (const auto* number = std::get_if<uint64_t*>(&value)) {
    return app.add_option(names, **number, help);
  }
  return app.add_option(names, *std::get<std::string*>(value), help);
}

std::string CheckNotEmpty(const std::string& text) { return text.empty() ? kEmptyValue : ""; }

void Apply(const OptionRules& rules, CLI::App& app, CLI::Option* option) {
  if (option->get_items_expected_max() > 0) option->check(CheckNotEmpty);
  if (rules.type != nullptr) option->type_name(rules.type);
  if (rules.required) option->required();
  if (rules.excludes != nullptr) option->excludes(app.get_option(rules.excludes));
  if (!rules.one_of.empty()) option->check(CLI::IsMember(rules.one_of));
  if (rules.most > 0) option->check(CLI::Range(rules.least, rules.most));
  if (rules.check != nullptr) option->check(rules.check);
}

// `error` is 0 if std::cout failed earlier, in a write whose result nobody looked at.
absl::Status OutputError(int error) {
  return absl::UnavailableError(absl::StrCat("cannot write the output", error == 0 ? "" : ": ",
                                             error == 0 ? "" : strerror(error)));
}

}  // namespace

std::string CheckDuration(const std::string& text) {
  absl::Duration duration;
  const bool good = absl::ParseDuration(text, &duration) && duration > absl::ZeroDuration();
  return good ? "" : "not a duration, such as 30s, 10m or 1h30m";
}

std::string CheckPositive(const std::string& text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) && number > 0 ? "" : "not a whole number of 1 or more";
}

std::string CheckCount(const std::string& text) {
  uint64_t number = 0;
  return absl::SimpleAtoi(text, &number) ? "" : "not a whole number of 0 or more";
}

absl::Status WrongUsage(const std::string& message) {
  absl::Status status = absl::InvalidArgumentError(message);
  status.SetPayload(kWrongUsageUrl, absl::Cord());
  return status;
}

absl::Status WriteOutput(absl::string_view text) {
  errno = 0;
  if (std::cout.write(text.data(), static_cast<std::streamsize>(text.size()))) {
    return absl::OkStatus();
  }
  return OutputError(errno);
}

absl::Status FlushOutput() {
  errno = 0;
  return std::cout.flush() ? absl::OkStatus() : OutputError(errno);
}

void Options::Add(const char* names, Value value, const char* help, OptionRules rules) {
  options_.push_back({names, value, help, std::move(rules)});
}

int Program::Main(int argc, char** argv) const {
  CLI::App app(texts_.help, texts_.name);
  app.set_version_flag("--version", texts_.version);
  app.footer(texts_.footer);
  app.require_subcommand(1);
  app.fallthrough();  // inherited: program options may also follow the subcommand
  const auto add_all = [](const Options& options, CLI::App& to) {
    for (const Options::Option& option : options.options_) {
      Apply(option.rules, to, AddOption(to, option.names, option.value, option.help));
    }
  };
  add_all(options_, app);
  const Command* chosen = nullptr;
  for (const Command& command : commands_) {
    CLI::App* const to = app.add_subcommand(command.name, command.help);
    to->footer(std::string(command.footer) + texts_.command_footer);
    add_all(command.options, *to);
    to->callback([&chosen, &command] { chosen = &command; });
  }
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "help") {  // `tool help copy` is `tool copy --help`
    words.erase(words.begin());
    const bool unknown =
        !words.empty() && words[0].front() != '-' &&
        std::none_of(commands_.begin(), commands_.end(),
                     [&](const Command& command) { return command.name == words[0]; });
    if (!unknown) words.push_back("--help");
  }
  try {
    if (const std::string flag = EmptyFlag(words); !flag.empty()) {
      throw CLI::ValidationError(flag, kEmptyValue);
    }
    std::reverse(words.begin(), words.end());  // as CLI11 wants them
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    return Refuse(app, error);
  }

  absl::Status status = chosen->action(globals_);
  if (status.ok()) status = FlushOutput();
  if (status.ok()) return 0;
  std::cout.flush();
  if (status.GetPayload(kWrongUsageUrl).has_value()) {
    PrintWrongUsage(absl::StrCat(texts_.name, " ", chosen->name), status.message());
    return kWrongUsage;
  }
  std::cerr << texts_.name << ": " << status.message()
            << (absl::IsDataLoss(status) ? "; see `" + globals_.Command("doctor") + "`" : "")
            << "\n";
  return kDidNotWork;
}

}  // namespace ranklog::cli
