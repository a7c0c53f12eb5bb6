#include "service/deliver/credentials.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "ranklog/v1/base_url.h"
#include "service/base/environment.h"
#include "service/base/ownership.h"
#include "service/base/status_macros.h"
#include "service/deliver/destination.h"
#include "service/deliver/http/machine/netrc.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/url.h"

namespace ranklog::deliver {

CredentialStore::Options CredentialStore::Options::FromEnvironment(const std::string& state_dir) {
  Options options;
  for (const auto& destination : AllDestinations()) {
    const Credential credential = destination->CredentialIn(
        [](const std::string& name) { return EnvironmentVariable(name.c_str()); });
    if (!credential.secret.empty()) options.environment[destination->kind()] = credential;
    const std::string url =
        EnvironmentVariable(destination->VariableOf(destination->words().url_setting).c_str());
    if (!url.empty()) options.environment_url[destination->kind()] = v1::WithoutUser(url);
  }
  const std::string home = EnvironmentVariable("HOME");
  if (std::string netrc = EnvironmentVariable("NETRC"); !netrc.empty()) {
    if (absl::StartsWith(netrc, "~/")) netrc = absl::StrCat(home, netrc.substr(1));
    options.netrc = {netrc};
  } else if (!home.empty()) {
    options.netrc = {home + "/.netrc", home + "/_netrc"};
  }
  options.files = {state_dir + "/credentials"};
  if (const std::string config = EnvironmentVariable("XDG_CONFIG_HOME"); !config.empty()) {
    options.files.push_back(config + "/ranklog/credentials");
  } else if (!home.empty()) {
    options.files.push_back(home + "/.config/ranklog/credentials");
  }
  if (const std::string passed = EnvironmentVariable("CREDENTIALS_DIRECTORY"); !passed.empty()) {
    options.passed = {passed + "/credentials"};
  }
  return options;
}

std::string JobOf(absl::string_view project, absl::string_view job_id) {
  return absl::StrCat(project.size(), ":", project, job_id);
}

absl::Status CredentialStore::Set(absl::string_view job, const Account& account,
                                  Credential credential) {
  ASSIGN_OR_RETURN(const Url url, ParseUrl(account.server));
  if (credential.secret.empty()) return absl::OkStatus();
  absl::Status usable = account.destination.CheckCredential(credential);
  const absl::MutexLock lock(&mutex_);
  given_[{std::string(job), account.destination.kind(), url.netloc}] = std::move(credential);
  return usable;
}

void CredentialStore::RecordAttach(absl::string_view job) {
  const absl::MutexLock lock(&mutex_);
  met_.insert(std::string(job));
}

bool CredentialStore::HasAttached(absl::string_view job) const {
  const absl::MutexLock lock(&mutex_);
  return met_.count(std::string(job)) > 0;
}

void CredentialStore::SetVariables(absl::string_view job,
                                   std::map<std::string, std::string> variables) {
  const absl::MutexLock lock(&mutex_);
  for (auto& [name, value] : variables) variables_[std::string(job)][name] = std::move(value);
}

absl::optional<std::map<std::string, std::string>> CredentialStore::VariablesOf(
    absl::string_view job) const {
  const absl::MutexLock lock(&mutex_);
  const auto found = variables_.find(std::string(job));
  if (found == variables_.end()) return absl::nullopt;
  return found->second;
}

absl::StatusOr<Credential> CredentialStore::Find(absl::string_view job, const Account& account,
                                                 const std::set<Credential>& refused) const {
  const Destination& destination = account.destination;
  if (!destination.NeedsKey()) return Credential();
  ASSIGN_OR_RETURN(const Url url, ParseUrl(account.server));
  const std::string& variable = destination.words().key_variable;
  const auto checked = [&](const Credential& credential,
                           absl::string_view from) -> absl::StatusOr<Credential> {
    if (absl::Status status = destination.CheckCredential(credential); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(from, ": ", status.message(), kToContinue,
                                                     "correct it there, or run: ", variable,
                                                     "=KEY ranklog sync RUN"));
    }
    return credential;
  };
  {
    const absl::MutexLock lock(&mutex_);
    const auto it = given_.find({std::string(job), destination.kind(), url.netloc});
    if (it != given_.end() && refused.count(it->second) == 0) {
      return checked(it->second, absl::StrCat(variable, " of the job"));
    }
  }
  const auto own = options_.environment.find(destination.kind());
  const auto own_url = options_.environment_url.find(destination.kind());
  const absl::StatusOr<Url> meant =
      own_url == options_.environment_url.end() ? url : ParseUrl(own_url->second);
  const bool of_server = meant.ok() && meant->netloc == url.netloc;
  if (own != options_.environment.end() && of_server && refused.count(own->second) == 0) {
    return checked(own->second, variable);
  }
  absl::Status unreadable;  // why the first file cannot be read
  const auto read = [&](const std::string& path,
                        bool must_be_private) -> absl::optional<Credential> {
    const auto text = ReadOwnFile(path, must_be_private);
    if (!text.ok()) {
      if (!absl::IsNotFound(text.status())) unreadable.Update(text.status());
      return absl::nullopt;
    }
    const auto entry = NetrcEntryOf(*text, url.netloc, account.project);
    Credential found = entry ? destination.CredentialOfLogin(*entry) : Credential();
    if (refused.count(found) != 0) found = {};
    return found;
  };
  for (const std::string& path : options_.netrc) {
    const auto found = read(path, /*must_be_private=*/false);
    if (!found) continue;
    if (!found->secret.empty()) return checked(*found, path);
    break;
  }
  std::vector<std::string> looked_in = options_.netrc;
  for (const std::vector<std::string>* paths : {&options_.files, &options_.passed}) {
    for (const std::string& path : *paths) {
      const auto found = read(path, /*must_be_private=*/paths == &options_.files);
      looked_in.push_back(path);
      if (found && !found->secret.empty()) return checked(*found, path);
    }
  }
  RETURN_IF_ERROR(unreadable);
  if (destination.words().key_is_optional && refused.count(Credential()) == 0) return Credential();
  return absl::NotFoundError(absl::StrCat(
      kNoKey, url.netloc, ": ",
      job.empty() ? "" : "no rank of the job has sent one since the daemon started, ", variable,
      of_server || own == options_.environment.end() ? " is not set"
                                                     : absl::StrCat(" is for ", own_url->second),
      ", and there is no key in ", absl::StrJoin(looked_in, ", ")));
}

bool CredentialStore::HasRefusedFile() const {
  const auto refused = [](const std::vector<std::string>& paths, bool must_be_private) {
    return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
      return access(path.c_str(), F_OK) == 0 && !ReadOwnFile(path, must_be_private).ok();
    });
  };
  return refused(options_.files, true) || refused(options_.passed, false);
}

}  // namespace ranklog::deliver
