#include "client/facts/metadata.h"

#include <gnu/libc-version.h>
#include <limits.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/base/text/keys.h"
#include "client/base/version.h"
#include "client/facts/git.h"
#include "client/facts/libraries.h"
#include "client/facts/secrets.h"
#include "client/facts/small_file.h"

namespace ranklog::internal {
namespace {

// The facts must fit into half of the smallest ring, 32 KiB.
constexpr size_t kMostOfFact = 1024;
constexpr size_t kMostOfList = 6 << 10;
constexpr size_t kMostOfCommand = 256 << 10;

constexpr const char* kVariables[] = {"USER",
                                      "LOGNAME",
                                      "HOME",
                                      "XDG_CONFIG_HOME",
                                      "GIT_DIR",
                                      "GIT_WORK_TREE",
                                      "WANDB_DOCKER",
                                      "WANDB_GIT_COMMIT",
                                      "WANDB_GIT_REMOTE_URL",
                                      "WANDB_GIT_REMOTE",
                                      "WANDB_DISABLE_GIT",
                                      "WANDB_USER_EMAIL"};
constexpr std::string_view kSlurmPrefix = "SLURM_";

// Valid UTF-8 of limited size.
std::string FactText(std::string text) {
  if (text.size() > kMostOfFact) {
    size_t most = kMostOfFact;
    while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
    text.resize(most);
  }
  if (!IsUtf8(text)) {
    for (char& c : text) {
      if (static_cast<unsigned char>(c) >= 0x80) c = '?';
    }
  }
  std::replace(text.begin(), text.end(), '\0', '?');
  return text;
}

void AddFact(v1::Object* object, const std::string& name, std::string text) {
  if (text.empty()) return;
  v1::Field* const field = object->add_fields();
  field->set_key(FactText(name));
  field->mutable_value()->set_text(FactText(std::move(text)));
}

void AddFact(v1::Object* object, const std::string& name, int64_t number) {
  v1::Field* const field = object->add_fields();
  field->set_key(name);
  field->mutable_value()->set_integer(number);
}

void AddFact(v1::Object* object, const std::string& name, const std::vector<std::string>& texts) {
  if (texts.empty()) return;
  v1::Field* const field = object->add_fields();
  field->set_key(name);
  v1::List* const list = field->mutable_value()->mutable_list();
  size_t bytes = 0;
  for (const std::string& text : texts) {
    std::string fact = FactText(text);
    bytes += fact.size() + 8;
    if (bytes > kMostOfList) {
      list->add_values()->set_text("...");
      return;
    }
    list->add_values()->set_text(std::move(fact));
  }
}

// As Python's platform.platform(), such as Linux-6.1.0-13-amd64-x86_64-with-glibc2.36.
std::string Platform() {
  utsname system = {};
  if (uname(&system) != 0) return "Linux";
  std::string text = absl::StrCat(system.sysname, "-", system.release, "-", system.machine,
                                  "-with-glibc", gnu_get_libc_version());
  std::replace(text.begin(), text.end(), ' ', '_');
  return text;
}

// Not by gmtime_r(): a child that is forked while another thread is in it inherits its lock, and waits
// for ever.
std::string Rfc3339(int64_t unix_us) {
  const std::chrono::sys_time<std::chrono::microseconds> time{std::chrono::microseconds(unix_us)};
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  return absl::StrFormat("%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", int{date.year()},
                         unsigned{date.month()}, unsigned{date.day()}, clock.hours().count(),
                         clock.minutes().count(), clock.seconds().count(),
                         clock.subseconds().count());
}

// The arguments of `program`, which may be a script: then those of its interpreter come first.
std::vector<std::string> Command(const std::string& program, const std::string& directory) {
  std::string text = ReadSmallFile("/proc/self/cmdline", kMostOfCommand).value_or("");
  if (!text.empty() && text.back() == '\0') text.pop_back();
  std::vector<std::string> arguments = absl::StrSplit(text, '\0');
  arguments.erase(arguments.begin());
  const auto script = std::find_if(arguments.begin(), arguments.end(), [&](const auto& argument) {
    return argument == program || absl::StrCat(directory, "/", argument) == program;
  });
  if (script != arguments.end()) arguments.erase(arguments.begin(), script + 1);
  return arguments;
}

std::string Executable() {
  char path[PATH_MAX];
  const ssize_t size = readlink("/proc/self/exe", path, sizeof path);
  return size > 0 ? std::string(path, static_cast<size_t>(size)) : "";
}

// Not getpwuid(), which may ask a network service.
std::string UserName(const Surroundings& surroundings) {
  for (const char* name : {"USER", "LOGNAME"}) {
    const auto found = surroundings.variables.find(name);
    if (found != surroundings.variables.end()) return found->second;
  }
  const std::string uid = absl::StrCat(getuid());
  const std::string users = ReadSmallFile("/etc/passwd", 1 << 20).value_or("");
  for (const absl::string_view line : absl::StrSplit(users, '\n')) {
    const std::vector<std::string> columns = absl::StrSplit(line, ':');
    if (columns.size() > 2 && columns[2] == uid) return columns[0];
  }
  return "";
}

bool IsTrue(std::string text) {
  absl::AsciiStrToLower(&text);
  const std::string_view kTrue[] = {"1", "true", "t", "yes", "y", "on"};
  return std::find(std::begin(kTrue), std::end(kTrue), text) != std::end(kTrue);
}

class Metadata {
 public:
  Metadata(const Settings& settings, const Surroundings& surroundings)
      : settings_(settings), surroundings_(surroundings) {}

  v1::Object Make(int64_t start_time_us) {
    AddFact(&facts_, "os", Platform());
    AddFact(&facts_, "startedAt", Rfc3339(start_time_us));
    AddFact(
        &facts_, "args",
        MaskArguments(Command(settings_.program, surroundings_.directory), settings_.credentials));
    AddFact(&facts_, "program", settings_.program);
    AddGit();
    AddFact(&facts_, "root", surroundings_.directory);
    AddFact(&facts_, "host", settings_.host);
    AddFact(&facts_, "username", UserName(surroundings_));
    AddFact(&facts_, "executable", Executable());
    AddFact(&facts_, "docker", MaskText(Get("WANDB_DOCKER"), settings_.credentials));
    AddSlurm();
    AddFact(&facts_, "pid", int64_t{getpid()});
    AddFact(&facts_, "node", settings_.node);
    AddFact(&facts_, "rank", int64_t{settings_.rank.value_or(0)});
    AddFact(&facts_, "world_size", int64_t{settings_.world_size.value_or(1)});
    AddFact(&facts_, "ranklog", std::string(kVersion));
    AddFact(&facts_, "libraries", LoadedLibraries());
    return std::move(facts_);
  }

 private:
  std::string Get(const char* name) const {
    const auto found = surroundings_.variables.find(name);
    return found == surroundings_.variables.end() ? "" : found->second;
  }

  void AddGit() {
    std::string email = Get("WANDB_USER_EMAIL");
    if (!IsTrue(Get("WANDB_DISABLE_GIT"))) {
      GitOptions options;
      options.directory = surroundings_.directory;
      options.git_dir = Get("GIT_DIR");
      options.work_tree = Get("GIT_WORK_TREE");
      options.home = Get("HOME");
      options.config_home = Get("XDG_CONFIG_HOME");
      if (const std::string remote = Get("WANDB_GIT_REMOTE"); !remote.empty()) {
        options.remote = remote;
      }
      GitFacts git = ReadGit(options);
      if (std::string commit = Get("WANDB_GIT_COMMIT"); !commit.empty()) {
        git.commit = std::move(commit);
      }
      if (const std::string url = Get("WANDB_GIT_REMOTE_URL"); !url.empty()) {
        git.remote = WithoutPassword(url);
      }
      if (email.empty()) email = git.email;
      const std::string root = git.root == "/" ? "/" : absl::StrCat(git.root, "/");
      if (!git.root.empty() && settings_.program.compare(0, root.size(), root) == 0) {
        AddFact(&facts_, "codePath", settings_.program.substr(root.size()));
      }
      v1::Object object;
      AddFact(&object, "remote", MaskText(git.remote, settings_.credentials));
      AddFact(&object, "commit", git.commit);
      AddFact(&object, "branch", git.branch);
      if (object.fields_size() > 0) AddObject("git", std::move(object));
    }
    AddFact(&facts_, "email", email);
  }

  void AddSlurm() {
    v1::Object slurm;
    size_t bytes = 0;
    for (const auto& [name, value] : surroundings_.variables) {
      if (name.compare(0, kSlurmPrefix.size(), kSlurmPrefix) != 0 || IsSecretName(name)) continue;
      bytes += name.size() + std::min(value.size(), kMostOfFact) + 8;
      if (bytes > kMostOfList) break;
      AddFact(&slurm, absl::AsciiStrToLower(name.substr(kSlurmPrefix.size())),
              MaskText(value, settings_.credentials));
    }
    if (slurm.fields_size() > 0) AddObject("slurm", std::move(slurm));
  }

  void AddObject(const char* name, v1::Object object) {
    v1::Field* const field = facts_.add_fields();
    field->set_key(name);
    *field->mutable_value()->mutable_object() = std::move(object);
  }

  const Settings& settings_;
  const Surroundings& surroundings_;
  v1::Object facts_;
};

}  // namespace

Surroundings ReadSurroundings() {
  Surroundings surroundings;
  for (char** variable = environ; variable != nullptr && *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const size_t equals = text.find('=');
    if (equals == std::string_view::npos || equals + 1 == text.size()) continue;
    const std::string_view name = text.substr(0, equals);
    if (name.substr(0, kSlurmPrefix.size()) != kSlurmPrefix &&
        std::find(std::begin(kVariables), std::end(kVariables), name) == std::end(kVariables)) {
      continue;
    }
    surroundings.variables.emplace(name, text.substr(equals + 1));
  }
  char directory[PATH_MAX];
  if (getcwd(directory, sizeof directory) != nullptr) surroundings.directory = directory;
  return surroundings;
}

v1::Object MakeMetadata(const Settings& settings, const Surroundings& surroundings,
                        int64_t start_time_us) {
  return Metadata(settings, surroundings).Make(start_time_us);
}

}  // namespace ranklog::internal
