#include "service/deliver/destination.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "ranklog/v1/base_url.h"
#include "service/base/status_macros.h"
#include "service/base/text/shell_word.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver {
namespace {

using List = std::vector<std::unique_ptr<const Destination>>;

// Never destroyed: threads may use it until the process ends.
List& Registered() {
  static List& list = *new List(KnownDestinations());
  return list;
}

}  // namespace

const List& AllDestinations() { return Registered(); }

void Register(std::unique_ptr<const Destination> destination) {
  Registered().push_back(std::move(destination));
}

const Destination* FindDestination(absl::string_view kind) {
  for (const auto& destination : AllDestinations()) {
    if (destination->kind() == kind) return destination.get();
  }
  return nullptr;
}

std::vector<std::string> DestinationKinds() {
  std::vector<std::string> kinds;
  for (const auto& destination : AllDestinations()) kinds.push_back(destination->kind());
  return kinds;
}

bool TakesParts(absl::string_view kind) {
  const Destination* const destination = FindDestination(kind);
  return destination != nullptr && destination->words().takes_all_ranks;
}

std::vector<std::string> DestinationsOfPart(const std::vector<std::string>& kinds) {
  std::vector<std::string> some;
  std::copy_if(kinds.begin(), kinds.end(), std::back_inserter(some),
               [](const std::string& kind) { return TakesParts(kind.c_str()); });
  if (some.empty()) some.push_back("local");
  return some;
}

std::string KindsText() {
  return absl::StrCat(absl::StrJoin(DestinationKinds(), ", "), " or local");
}

std::string Destination::VariableOf(absl::string_view setting) const {
  return absl::AsciiStrToUpper(absl::StrCat(kind(), "_", setting));
}

std::map<std::string, std::string> Destination::SettingsOf(
    const std::map<std::string, std::string>& given, std::vector<std::string>* mistakes) const {
  std::vector<std::string> names = words_.other_settings;
  names.push_back(words_.url_setting);
  std::map<std::string, std::string> settings;
  for (const auto& [name, value] : given) {
    const bool is_variable = absl::StartsWith(name, VariableOf(""));
    const auto known =
        std::find_if(names.begin(), names.end(), [&, &given_name = name](const std::string& one) {
          return (is_variable ? VariableOf(one) : one) == given_name;
        });
    if (known != names.end() && value.empty()) continue;  // its variable counts
    if (known != names.end()) {
      // Capital letters come first in the order of the map, so a name replaces its variable.
      const absl::string_view plain = absl::StripAsciiWhitespace(value);
      const absl::Status usable = CheckSetting(*known, plain);
      if (usable.ok()) {
        settings[*known] = std::string(plain);
      } else {
        mistakes->push_back(
            absl::StrCat(name, " of ", kind(), ": ", usable.message(), "; it is ignored"));
      }
    } else if (!is_variable) {  // the job may have other variables of the tracker's own programs
      mistakes->push_back(absl::StrCat(kind(), " has no setting \"", name, "\"; use ",
                                       absl::StrJoin(names, ", "), "; it is ignored"));
    }
  }
  // A path may contain an @.
  if (const auto url = settings.find(words_.url_setting);
      url != settings.end() && !absl::StartsWith(url->second, "/")) {
    std::string plain = v1::WithoutUser(url->second);
    if (plain != url->second) mistakes->push_back(UserInUrl());
    url->second = std::move(plain);
  }
  return settings;
}

std::string Destination::UserInUrl() const {
  return absl::StrCat(words_.url_setting, " of ", kind(),
                      " contains a user or a password, or an @; this part is ignored; set ",
                      words_.key_variable);
}

std::string Destination::AddressOf(const model::RunSettings& settings) const {
  const std::string& given = settings.Of(kind(), words_.url_setting);
  return given.empty() ? words_.public_url : given;
}

absl::StatusOr<std::string> Destination::ServerOf(const model::RunSettings& settings) const {
  return CheckUrl(AddressOf(settings));
}

absl::StatusOr<std::string> Destination::CheckUrl(absl::string_view url) const {
  while (absl::ConsumeSuffix(&url, "/")) {
  }
  if (url.empty()) url = words_.public_url;
  if (url.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(kind(), " needs the address of its server: set ",
                                                   VariableOf(words_.url_setting)));
  }
  RETURN_IF_ERROR(ParseUrl(url).status());
  return std::string(url);
}

absl::StatusOr<DownloadReport> Destination::Download(Transport& /*transport*/,
                                                     const std::string& /*server*/,
                                                     const Credential& /*credential*/,
                                                     const DownloadOptions& /*options*/) const {
  return absl::UnimplementedError(absl::StrCat(words_.name, " has no artifacts"));
}

absl::Status Destination::CheckCredential(const Credential& credential) const {
  for (const std::string* text : {&credential.user, &credential.secret}) {
    for (const char c : *text) {
      if (!absl::ascii_iscntrl(static_cast<unsigned char>(c))) continue;
      return absl::InvalidArgumentError("not a key: it contains a control character");
    }
  }
  return absl::OkStatus();
}

void Destination::Authorize(const Credential& credential, HttpRequest* request) const {
  if (credential.user.empty()) {
    request->bearer = credential.secret;
  } else {
    request->basic_user = credential.user;
    request->basic_password = credential.secret;
  }
}

Credential Destination::CredentialIn(
    const std::function<std::string(const std::string&)>& variable) const {
  const auto value = [&](const std::string& name) {
    return name.empty() ? std::string() : std::string(absl::StripAsciiWhitespace(variable(name)));
  };
  return {.user = value(words_.user_variable), .secret = value(words_.key_variable)};
}

std::map<std::string, std::string> Destination::VariablesOf(const Credential& credential) const {
  std::map<std::string, std::string> variables;
  if (!NeedsKey()) return variables;
  if (!words_.user_variable.empty()) variables[words_.user_variable] = credential.user;
  variables[words_.key_variable] = credential.secret;
  return variables;
}

std::string Destination::LoginCommand(absl::string_view server) const {
  const bool usual = &UsualDestination() == this;
  std::string command = absl::StrCat("ranklog login", usual ? "" : absl::StrCat(" ", kind()));
  const absl::StatusOr<std::string> checked = CheckUrl(server);
  if (checked.ok() && *checked != words_.public_url) {
    absl::StrAppend(&command, " --base-url ", ShellWord(*checked));
  }
  return absl::StrCat("`", command, "`");
}

absl::Status Destination::WithLoginCommand(const absl::Status& missing,
                                           absl::string_view server) const {
  if (!absl::IsNotFound(missing)) return missing;
  return absl::NotFoundError(
      absl::StrCat(missing.message(), kToContinue, "run ", LoginCommand(server)));
}

}  // namespace ranklog::deliver
