#include "service/sample/mounts.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "service/sample/fields.h"

namespace ranklog::sample {
namespace {

bool IsOctal(char c) { return c >= '0' && c <= '7'; }

// Blanks, line breaks and backslashes of paths are written as three octal digits: \040.
std::string Unescaped(absl::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && text.size() - i > 3 && IsOctal(text[i + 1]) && IsOctal(text[i + 2]) &&
        IsOctal(text[i + 3])) {
      plain += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                 (text[i + 3] - '0'));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// Whether `path` is `directory` or below it.
bool IsWithin(absl::string_view path, absl::string_view directory) {
  if (directory == "/") return absl::StartsWith(path, "/");
  return absl::ConsumePrefix(&path, directory) && (path.empty() || path[0] == '/');
}

const Mount* CgroupMount(const std::vector<Mount>& mounts) {
  for (const Mount& mount : mounts) {
    if (mount.type == "cgroup2") return &mount;
  }
  return nullptr;
}

}  // namespace

std::vector<Mount> ParseMounts(absl::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty()) {
    absl::string_view line = TakeLine(mountinfo);
    SkipFields(line, 2);
    Mount mount;
    mount.number = std::string(TakeField(line));
    mount.root = Unescaped(TakeField(line));
    mount.point = Unescaped(TakeField(line));
    absl::string_view field;
    do {  // options, whose number varies
      field = TakeField(line);
    } while (!field.empty() && field != "-");
    mount.type = std::string(TakeField(line));
    mount.source = Unescaped(TakeField(line));
    if (!mount.type.empty()) mounts.push_back(std::move(mount));
  }
  return mounts;
}

const Mount* MountOf(const std::vector<Mount>& mounts, absl::string_view path) {
  const Mount* best = nullptr;
  for (const Mount& mount : mounts) {
    if (!IsWithin(path, mount.point)) continue;
    // Of two mounts at one place, the later one hides the earlier one.
    if (best == nullptr || mount.point.size() >= best->point.size()) best = &mount;
  }
  return best;
}

absl::optional<std::string> CgroupDirectory(const std::vector<Mount>& mounts,
                                            absl::string_view cgroup) {
  const Mount* const mount = CgroupMount(mounts);
  if (mount == nullptr) return absl::nullopt;
  while (!cgroup.empty()) {
    absl::string_view path = TakeLine(cgroup);
    if (!absl::ConsumePrefix(&path, "0::")) continue;  // version 1
    // A container may see a part of the groups only. A path with .. is outside of that part.
    if (!IsWithin(path, mount->root) || absl::StrContains(path, "/..")) return absl::nullopt;
    if (mount->root != "/") path.remove_prefix(mount->root.size());
    return absl::StrCat(mount->point, path == "/" ? "" : path);
  }
  return absl::nullopt;
}

std::string CgroupMountPoint(const std::vector<Mount>& mounts) {
  const Mount* const mount = CgroupMount(mounts);
  return mount == nullptr ? "" : mount->point;
}

}  // namespace ranklog::sample
