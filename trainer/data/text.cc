#include "trainer/data/text.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ranklog::trainer {
namespace {

constexpr char kJargon[] = "/usr/share/doc/jargon-text/jargon.txt.gz";
constexpr char kLicences[] = "/usr/share/common-licenses";
constexpr size_t kPiece = 1 << 20;  // bytes read at once

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;
using TextSink = std::function<absl::Status(absl::string_view)>;

absl::StatusOr<Text> Licences() {
  std::error_code error;
  Text text{.name = kLicences, .files = {}};
  for (const auto& entry : std::filesystem::directory_iterator(kLicences, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error))
      text.files.push_back(entry.path());
  }
  std::sort(text.files.begin(), text.files.end());  // every node must see the same text
  if (!text.files.empty()) return text;
  return absl::NotFoundError(absl::StrCat("cannot find a built-in text: ", kJargon,
                                          " (package jargon-text) and ", kLicences,
                                          " do not exist; give a file with --data"));
}

// zlib passes through bytes that are not gzipped.
absl::Status ReadUnpacked(const std::string& path, const TextSink& sink) {
  errno = 0;
  const GzFile file(gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    const int error = errno;
    return absl::NotFoundError(
        absl::StrCat("cannot open the text ", path, ": ", std::strerror(error)));
  }
  gzbuffer(file.get(), kPiece);
  std::vector<char> piece(kPiece);
  int got = 0;
  while ((got = gzread(file.get(), piece.data(), piece.size())) > 0) {
    if (absl::Status status = sink({piece.data(), static_cast<size_t>(got)}); !status.ok())
      return status;
  }
  // A truncated gzipped file ends early without an error; only gzerror() reports it.
  int error = Z_OK;
  const absl::string_view message = gzerror(file.get(), &error);  // begins with the path
  const absl::string_view reason = absl::StripPrefix(message, absl::StrCat(path, ": "));
  if (got == 0 && error == Z_OK) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("cannot read the text ", path, ": ",
                                          error == Z_ERRNO ? std::strerror(errno) : reason));
}

}  // namespace

absl::StatusOr<Text> FindText(const std::string& data) {
  std::error_code error;
  const bool builtin = data == "builtin";
  if (builtin && !std::filesystem::exists(kJargon, error)) return Licences();
  const std::string path = builtin ? kJargon : data;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!error && !std::filesystem::is_regular_file(status)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot open the text ", path, ": not a regular file"));
  }
  if (error || access(path.c_str(), R_OK) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot open the text ", path, ": ",
                                            error ? error.message() : std::strerror(errno)));
  }
  return Text{.name = path, .files = {path}};
}

bool IsPlainFile(const Text& text) {
  if (text.files.size() != 1) return false;
  unsigned char first[2] = {};
  std::ifstream(text.files[0], std::ios::binary).read(reinterpret_cast<char*>(first), 2);
  return first[0] != 0x1f || first[1] != 0x8b;  // RFC 1952, 2.3.1
}

absl::Status ReadText(const Text& text, const TextSink& sink) {
  for (const std::string& path : text.files) {
    if (absl::Status status = ReadUnpacked(path, sink); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadFiles(const Text& text, const TextSink& sink) {
  std::vector<char> piece(kPiece);
  for (const std::string& path : text.files) {
    std::ifstream file(path, std::ios::binary);
    while (file.read(piece.data(), piece.size()) || file.gcount() > 0) {
      const absl::string_view bytes(piece.data(), file.gcount());
      if (absl::Status status = sink(bytes); !status.ok()) return status;
    }
    if (!file.eof()) {
      return absl::DataLossError(
          absl::StrCat("cannot read the text ", path, ": ", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace ranklog::trainer
