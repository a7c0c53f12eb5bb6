#include "client/content/code_files.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace ranklog::internal {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kUsual[] = {
    ".c",        ".cc", ".cpp",   ".cxx",           ".cu",
    ".h",        ".hh", ".hpp",   ".hxx",           ".cuh",
    ".py",       ".sh", ".cmake", "CMakeLists.txt", "requirements.txt",
    "Dockerfile"};
// Each is an upload of its own, and a source tree has fewer.
constexpr size_t kMostFiles = 10'000;

bool IsLeftOut(const fs::path& directory, bool in_root) {
  const std::string name = directory.filename().string();
  std::error_code error;
  return name.empty() || name[0] == '.' || (in_root && name == "wandb") ||
         fs::exists(directory / "CMakeCache.txt", error);
}

template <typename Suffixes>
absl::StatusOr<std::vector<FileToStage>> FilesWith(const Suffixes& suffixes,
                                                   const std::string& root) {
  const auto is_code = [&](const std::string& name) {
    return std::any_of(std::begin(suffixes), std::end(suffixes), [&](const auto& suffix) {
      return absl::EndsWith(name, absl::string_view(suffix.data(), suffix.size()));
    });
  };
  std::error_code error;
  std::vector<FileToStage> files;
  fs::recursive_directory_iterator entry(root, fs::directory_options::skip_permission_denied,
                                         error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (entry->is_directory(unknown) && IsLeftOut(entry->path(), entry.depth() == 0)) {
      entry.disable_recursion_pending();
    }
    if (!entry->is_regular_file(unknown) || !is_code(entry->path().filename().string())) continue;
    if (files.size() == kMostFiles) {
      return absl::ResourceExhaustedError(
          absl::StrCat("LogCode: ", root, " has more than ", kMostFiles,
                       " source files; name a smaller directory or fewer suffixes"));
    }
    files.push_back(
        {entry->path().string(), entry->path().lexically_relative(root).generic_string()});
  }
  if (error) return absl::NotFoundError(absl::StrCat("LogCode: ", root, ": ", error.message()));
  if (files.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "LogCode: below ", root, " no file's name ends in ",
        absl::StrJoin(suffixes, ", ",
                      [](std::string* out, const auto& suffix) { out->append(suffix); })));
  }
  std::sort(files.begin(), files.end(),
            [](const FileToStage& a, const FileToStage& b) { return a.name < b.name; });
  return files;
}

}  // namespace

absl::StatusOr<std::vector<FileToStage>> CodeIn(const std::string& root,
                                                const std::vector<std::string>& suffixes) {
  return suffixes.empty() ? FilesWith(kUsual, root) : FilesWith(suffixes, root);
}

std::string CodeArtifactName(const std::string& project, const std::string& program) {
  constexpr size_t kMost = 128, kPart = 63;
  std::string name = absl::StrCat("source-", project.empty() ? "uncategorized" : project, "-",
                                  fs::path(program).filename().string());
  for (char& c : name) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') {
      c = '_';
    }
  }
  if (name.size() <= kMost) return name;
  return absl::StrCat(name.substr(0, kPart), "..", name.substr(name.size() - kPart));
}

}  // namespace ranklog::internal
