#include "client/facts/git.h"

#include <sys/stat.h>

#include <map>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/facts/small_file.h"
#include "ranklog/v1/base_url.h"

namespace ranklog::internal {
namespace {

constexpr size_t kMostOfRef = 4096;
constexpr size_t kMostOfConfig = 1 << 20;
constexpr size_t kMostOfPackedRefs = 32 << 20;
constexpr int kMostParents = 64;

std::string Line(const std::string& path) {
  std::string text = ReadSmallFile(path, kMostOfRef).value_or("");
  text.resize(std::min(text.find('\n'), text.size()));
  absl::StripAsciiWhitespace(&text);
  return text;
}

std::string Behind(std::string_view prefix, const std::string& text) {
  if (std::string_view(text).substr(0, prefix.size()) != prefix) return "";
  std::string rest = text.substr(prefix.size());
  absl::StripAsciiWhitespace(&rest);
  return rest;
}

std::string Absolute(const std::string& directory, const std::string& path) {
  return path.empty() || path[0] == '/' ? path : absl::StrCat(directory, "/", path);
}

bool IsDirectory(const std::string& path) {
  struct stat facts {};
  return stat(path.c_str(), &facts) == 0 && S_ISDIR(facts.st_mode);
}

// The values of a configuration by "section.subsection.key". The last one of a key counts.
std::map<std::string, std::string> ReadConfig(const std::string& path) {
  std::map<std::string, std::string> values;
  const std::string text = ReadSmallFile(path, kMostOfConfig).value_or("");
  std::string section;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (line[0] == '[') {
      const size_t quote = line.find('"');
      const size_t end = quote == line.npos ? line.find(']') : line.rfind('"');
      if (end == line.npos) continue;
      section = absl::AsciiStrToLower(
          absl::StripAsciiWhitespace(line.substr(1, std::min(quote, end) - 1)));
      if (quote != line.npos && end > quote) {
        absl::StrAppend(&section, ".", line.substr(quote + 1, end - quote - 1));
      }
      continue;
    }
    const size_t equals = line.find('=');
    if (equals == line.npos) continue;
    absl::string_view value = absl::StripAsciiWhitespace(line.substr(equals + 1));
    if (value.size() > 1 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    const std::string key =
        absl::AsciiStrToLower(absl::StripAsciiWhitespace(line.substr(0, equals)));
    values[absl::StrCat(section, ".", key)] = std::string(value);
  }
  return values;
}

std::string PackedCommit(const std::string& common, const std::string& ref) {
  const std::string text =
      ReadSmallFile(absl::StrCat(common, "/packed-refs"), kMostOfPackedRefs).value_or("");
  const size_t at = text.find(absl::StrCat(" ", ref, "\n"));
  if (at == std::string::npos) return "";
  const size_t begin = text.rfind('\n', at);
  return text.substr(begin == std::string::npos ? 0 : begin + 1,
                     at - (begin == std::string::npos ? 0 : begin + 1));
}

bool IsCommit(const std::string& text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The repository of a working tree: its directory .git, or the one that its file .git names.
std::string GitDirOf(const std::string& root) {
  std::string dir = absl::StrCat(root, "/.git");
  if (IsDirectory(dir)) return dir;
  return Absolute(root, Behind("gitdir:", Line(dir)));
}

}  // namespace

std::string WithoutPassword(const std::string& url) {
  return url.find("://") == std::string::npos ? url : v1::WithoutUser(url);
}

GitFacts ReadGit(const GitOptions& options) {
  GitFacts facts;
  std::string git_dir = Absolute(options.directory, options.git_dir);
  if (!git_dir.empty()) {
    facts.root = options.work_tree.empty() ? options.directory
                                           : Absolute(options.directory, options.work_tree);
  }
  std::string directory = options.directory;
  for (int i = 0; i < kMostParents && git_dir.empty() && !directory.empty(); ++i) {
    git_dir = GitDirOf(directory);
    if (!git_dir.empty()) facts.root = directory;
    directory.resize(std::min(directory.rfind('/'), directory.size()));
  }
  if (git_dir.empty()) return facts;
  const std::string head = Line(absl::StrCat(git_dir, "/HEAD"));
  if (head.empty()) return GitFacts();
  const std::string shared = Line(absl::StrCat(git_dir, "/commondir"));
  const std::string common = shared.empty() ? git_dir : Absolute(git_dir, shared);

  const std::string ref = Behind("ref:", head);
  facts.branch = Behind("refs/heads/", ref);
  facts.commit = head;
  if (!ref.empty() && ref.find("..") == std::string::npos) {
    facts.commit = Line(absl::StrCat(git_dir, "/", ref));
    if (facts.commit.empty()) facts.commit = Line(absl::StrCat(common, "/", ref));
    if (facts.commit.empty()) facts.commit = PackedCommit(common, ref);
  }
  if (!IsCommit(facts.commit)) facts.commit.clear();

  const std::string config_home = !options.config_home.empty() ? options.config_home
                                  : options.home.empty()       ? ""
                                                         : absl::StrCat(options.home, "/.config");
  std::vector<std::string> paths;
  if (!config_home.empty()) paths.push_back(absl::StrCat(config_home, "/git/config"));
  if (!options.home.empty()) paths.push_back(absl::StrCat(options.home, "/.gitconfig"));
  paths.push_back(absl::StrCat(common, "/config"));
  for (const std::string& path : paths) {
    const std::map<std::string, std::string> config = ReadConfig(path);
    if (const auto email = config.find("user.email"); email != config.end()) {
      facts.email = email->second;
    }
    const auto url = config.find(absl::StrCat("remote.", options.remote, ".url"));
    if (url != config.end()) facts.remote = WithoutPassword(url->second);
  }
  return facts;
}

}  // namespace ranklog::internal
