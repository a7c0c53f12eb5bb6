#include "service/daemon/config/config_values.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ranklog/v1/places.h"
#include "service/base/host_port.h"
#include "service/base/ownership.h"
#include "service/base/peer_defaults.h"
#include "service/base/text/byte_size.h"
#include "service/daemon/config/config.h"

namespace ranklog::daemon {
namespace {

constexpr char kUnlimited[] = "unlimited";  // --keep-bytes

CLI::Validator DurationText(DurationRange range) {
  return CLI::Validator(
      [range](const std::string& text) -> std::string {
        absl::Duration parsed;
        if ((range.infinite != nullptr && text == range.infinite) ||
            (absl::ParseDuration(text, &parsed) && parsed >= range.least && parsed <= range.most &&
             parsed < absl::InfiniteDuration())) {
          return "";
        }
        if (range.infinite != nullptr) {
          return absl::StrCat("'", text, "' is not a duration, such as 10m or 168h, or ",
                              range.infinite);
        }
        return absl::StrCat("'", text, "' is not a duration of at least ",
                            absl::FormatDuration(range.least),
                            range.most == absl::InfiniteDuration()
                                ? ", such as 500ms, 30s or 2m"
                                : absl::StrCat(" and at most ", absl::FormatDuration(range.most)));
      },
      "");
}

CLI::Validator BytesText() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        int64_t bytes = 0;
        if (text == kUnlimited || ParseBytes(text, &bytes)) return "";
        return absl::StrCat("'", text, "' is not a size, such as 500MiB or 4GiB, or ", kUnlimited);
      },
      "");
}

}  // namespace

CLI::Option* AddDuration(CLI::App& app, const char* flag, absl::Duration* value,
                         const DurationRange& range, const char* help) {
  const auto set = [value](const std::string& text) {
    // The validator accepted the text, so it is a duration or the word for no limit.
    if (!absl::ParseDuration(text, value)) *value = absl::InfiniteDuration();
  };
  std::string otherwise = absl::FormatDuration(*value);
  if (*value == absl::ZeroDuration()) otherwise = "0s";
  if (*value == absl::InfiniteDuration()) otherwise = range.infinite;
  return app.add_option_function<std::string>(flag, set, help)
      ->type_name("DURATION")
      ->check(DurationText(range))
      ->default_str(otherwise);
}

CLI::Option* AddBytes(CLI::App& app, const char* flag, int64_t* bytes, const char* help) {
  const auto set = [bytes](const std::string& text) {
    // The validator accepted the text, so it is a size or the word for no limit.
    if (!ParseBytes(text, bytes)) *bytes = storage::KeepLimits::kUnlimited;
  };
  return app.add_option_function<std::string>(flag, set, help)
      ->type_name("SIZE")
      ->check(BytesText())
      ->default_str(absl::StrCat(*bytes >> 30, "GiB"));
}

std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.string();
}

CLI::Validator NotEmpty() {
  return CLI::Validator(
      [](const std::string& text) -> std::string { return text.empty() ? kEmptyValue : ""; }, "");
}

CLI::Validator OwnFile() {
  return CLI::Validator(
      [](const std::string& path) -> std::string {
        struct stat info {};
        if (stat(path.c_str(), &info) != 0 || access(path.c_str(), R_OK) != 0) {
          return absl::StrCat("cannot read ", path, ": ", strerror(errno));
        }
        if (S_ISDIR(info.st_mode)) {
          return "cannot read " + path + ": it is a directory; pass a configuration file";
        }
        if (!IsOursOrRoots(info.st_uid)) {
          return absl::StrCat(path, " belongs to user ", info.st_uid,
                              "; use a file of yours or of root");
        }
        if ((info.st_mode & 002) == 0) return "";
        return absl::StrCat(path, " is writable by other users; ",
                            S_ISREG(info.st_mode) ? "run: chmod o-w " + path
                                                  : "it is not a regular file; pass one of yours");
      },
      "");
}

CLI::Validator UnixAddress() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (!absl::StartsWith(text, kUnix) || text.size() == sizeof(kUnix) - 1) {
          return absl::StrCat("'", text, "' is not an address; use unix:PATH");
        }
        const std::string path = Absolute(text.substr(sizeof(kUnix) - 1));
        if (path.size() <= v1::kMaxSocketPath) return "";
        return absl::StrCat("the path of the socket has ", path.size(),
                            " bytes, and the kernel accepts at most ", v1::kMaxSocketPath,
                            "; choose a shorter one: ", path);
      },
      "");
}

CLI::Validator PeerListenAddress() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text == kNone || ParseHostPort(text, /*default_port=*/0)) return "";
        return absl::StrCat("'", text,
                            "' is not an address; use HOST:PORT, such as [::]:", DefaultPeerPort(),
                            ", or none");
      },
      "");
}

CLI::Validator PeerAddress() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (ParseHostPort(text, DefaultPeerPort())) return "";
        return absl::StrCat("'", text, "' is not an address; use HOST or HOST:PORT");
      },
      "");
}

CLI::Validator PresentKeyFile() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        if (text == kNone || StartedBy() == kRank || access(text.c_str(), R_OK) == 0) return "";
        const std::string why = absl::StrCat("cannot read ", text, ": ", strerror(errno));
        return errno == ENOENT ? absl::StrCat(why, "; run: ranklog peer-key ", text) : why;
      },
      "");
}

}  // namespace ranklog::daemon
