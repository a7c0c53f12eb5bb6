#include "trainer/base/usage_error.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "trainer/base/error_file.h"
#include "trainer/base/messages.h"

namespace ranklog::trainer {
namespace {

// Lower case, without dashes and underscores: users may remember an option like that.
std::string Bare(absl::string_view name) {
  std::string bare(name);
  bare.erase(std::remove_if(bare.begin(), bare.end(), [](char c) { return c == '-' || c == '_'; }),
             bare.end());
  return absl::AsciiStrToLower(bare);
}

// "unknown option --step; did you mean --steps?" for the first option that does not exist. CLI11
// would name its value, too. Empty: all options exist.
std::string UnknownOptionError(CLI::App& app, int argc, const char* const* argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string name = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (!absl::StartsWith(name, "--") || app.get_option_no_throw(name) != nullptr) continue;
    std::string error = absl::StrCat("unknown option ", name);
    for (const CLI::Option* const option : app.get_options()) {
      const std::string known = Bare(option->get_name());
      if (!Bare(name).empty() && absl::StartsWith(known, Bare(name)))
        return absl::StrCat(error, "; did you mean ", option->get_name(), "?");
    }
    return error;
  }
  return "";
}

}  // namespace

void CheckNoEmptyFlag(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg.rfind("--", 0) == 0 && arg.find('=') == arg.size() - 1) {
      throw CLI::ValidationError(arg.substr(0, arg.size() - 1),
                                 "its value is empty; give one, or leave the flag out");
    }
  }
}

std::string UsageError(const CLI::ParseError& error, CLI::App& app, int argc,
                       const char* const* argv) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const std::string unknown = UnknownOptionError(app, argc, argv);
    if (!unknown.empty()) return unknown;
  }
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr)
    return absl::StrCat(text.substr(0, text.find(':')), " needs a value");
  return text;
}

int WrongUsage(const std::string& reason) {
  WriteMessage(absl::StrCat("ranklog-train: ", reason, "\n"));
  WriteErrorFile(reason);
  return 2;
}

}  // namespace ranklog::trainer
