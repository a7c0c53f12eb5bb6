#include "service/deliver/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/types/optional.h"
#include "service/base/environment.h"
#include "service/base/ownership.h"
#include "service/base/status_macros.h"
#include "service/deliver/netrc.h"
#include "service/deliver/retry.h"
#include "service/deliver/url.h"

namespace ranklog::deliver {
namespace {

constexpr size_t kMaxFile = 1 << 20;

// The text of the file; nullopt if it does not exist.
absl::StatusOr<absl::optional<std::string>> ReadFile(const std::string& path,
                                                     bool must_be_private) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return absl::optional<std::string>();
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  }
  const absl::Cleanup close_it = [fd] { close(fd); };
  struct stat stat = {};
  if (fstat(fd, &stat) != 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot stat ", path));
  // A key that another user could write there would send our rows to that user's account.
  if (!IsOursOrRoots(stat.st_uid)) {
    return absl::PermissionDeniedError(absl::StrCat("refused ", path, ": it belongs to user ",
                                                    stat.st_uid,
                                                    "; replace it with a file of your own"));
  }
  if (!S_ISREG(stat.st_mode)) {
    return absl::PermissionDeniedError(
        absl::StrCat("refused ", path, ": it is not a regular file; replace it with one"));
  }
  if (must_be_private && (stat.st_mode & 077) != 0) {
    return absl::PermissionDeniedError(absl::StrFormat(
        "refused %s: it is accessible to other users (mode %04o); run: chmod 600 %s", path,
        stat.st_mode & 07777, path));
  }
  std::string text(kMaxFile, '\0');
  size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (n == 0) break;
    size += n;
  }
  text.resize(size);
  return absl::optional<std::string>(std::move(text));
}

}  // namespace

absl::Status CheckWandbKey(absl::string_view key) {
  if (key.empty()) return absl::InvalidArgumentError("not an API key: it is empty");
  for (const char c : key) {
    if (!absl::ascii_isgraph(static_cast<unsigned char>(c))) {
      return absl::InvalidArgumentError(
          "not an API key: it contains a space or a control character");
    }
  }
  return absl::OkStatus();
}

CredentialStore::Options CredentialStore::Options::FromEnvironment(const std::string& state_dir) {
  Options options;
  options.environment_key = EnvironmentVariable("WANDB_API_KEY");
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

absl::Status CredentialStore::Set(absl::string_view job, absl::string_view base_url,
                                  absl::string_view key) {
  key = absl::StripAsciiWhitespace(key);
  ASSIGN_OR_RETURN(const Url url, ParseUrl(base_url));
  if (!key.empty()) {
    const absl::MutexLock lock(&mutex_);
    given_[{std::string(job), url.netloc}] = std::string(key);
  }
  return CheckWandbKey(key);
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

absl::StatusOr<std::string> CredentialStore::Find(absl::string_view job, absl::string_view base_url,
                                                  const std::set<std::string>& refused) const {
  ASSIGN_OR_RETURN(const Url url, ParseUrl(base_url));
  const auto checked = [](const std::string& key,
                          absl::string_view from) -> absl::StatusOr<std::string> {
    if (absl::Status status = CheckWandbKey(key); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(from, ": ", status.message(), kToContinue,
                       "correct it there, or run: WANDB_API_KEY=KEY ranklog sync RUN"));
    }
    return key;
  };
  {
    const absl::MutexLock lock(&mutex_);
    const auto it = given_.find({std::string(job), url.netloc});
    if (it != given_.end() && refused.count(it->second) == 0) {
      return checked(it->second, "WANDB_API_KEY of the job");
    }
  }
  if (!options_.environment_key.empty() && refused.count(options_.environment_key) == 0) {
    return checked(options_.environment_key, "WANDB_API_KEY");
  }
  absl::Status unreadable;  // why the first file cannot be read
  for (const std::string& path : options_.netrc) {
    const auto text = ReadFile(path, /*must_be_private=*/false);
    unreadable.Update(text.status());
    if (!text.ok() || !text->has_value()) continue;
    const auto key = NetrcPassword(**text, url.netloc);
    if (key && refused.count(*key) == 0) return checked(*key, path);
    break;
  }
  std::vector<std::string> looked_in = options_.netrc;
  for (const std::vector<std::string>* paths : {&options_.files, &options_.passed}) {
    for (const std::string& path : *paths) {
      const auto text = ReadFile(path, /*must_be_private=*/paths == &options_.files);
      unreadable.Update(text.status());
      looked_in.push_back(path);
      if (!text.ok() || !text->has_value()) continue;
      const auto key = NetrcPassword(**text, url.netloc);
      if (key && refused.count(*key) == 0) return checked(*key, path);
    }
  }
  RETURN_IF_ERROR(unreadable);
  return absl::NotFoundError(absl::StrCat(
      kNoKey, url.netloc, ": ",
      job.empty() ? "" : "no rank of the job has sent one since the daemon started, ",
      "WANDB_API_KEY is not set, and there is no key in ", absl::StrJoin(looked_in, ", ")));
}

bool CredentialStore::HasRefusedFile() const {
  const auto refused = [](const std::vector<std::string>& paths, bool must_be_private) {
    return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) {
      return access(path.c_str(), F_OK) == 0 && !ReadFile(path, must_be_private).ok();
    });
  };
  return refused(options_.files, true) || refused(options_.passed, false);
}

}  // namespace ranklog::deliver
