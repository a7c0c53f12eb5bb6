#include "trainer/data.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace ranklog::trainer {
namespace {

constexpr char kJargon[] = "/usr/share/doc/jargon-text/jargon.txt.gz";
constexpr char kLicences[] = "/usr/share/common-licenses";
constexpr size_t kHeldOutPart = 20;  // one in so many bytes is held out

struct CloseGz {
  void operator()(gzFile file) const { gzclose(file); }
};
using GzFile = std::unique_ptr<gzFile_s, CloseGz>;

// Appends the file; zlib passes what is not gzipped through as it is.
absl::Status AppendFile(const std::string& path, std::vector<uint8_t>& bytes) {
  errno = 0;
  const GzFile file(gzopen(path.c_str(), "rbe"));
  if (file == nullptr) {
    const int error = errno;
    return absl::NotFoundError(absl::StrCat("open the text ", path, ": ", std::strerror(error)));
  }
  std::vector<uint8_t> chunk(1 << 20);
  int got = 0;
  while ((got = gzread(file.get(), chunk.data(), chunk.size())) > 0) {
    bytes.insert(bytes.end(), chunk.begin(), chunk.begin() + got);
  }
  // A gzipped file that was cut off reads short without an error until it is asked for.
  int error = Z_OK;
  const char* reason = gzerror(file.get(), &error);
  if (got < 0 || error != Z_OK) {
    return absl::DataLossError(absl::StrCat("read the text ", path, ": ",
                                            error == Z_ERRNO ? std::strerror(errno) : reason));
  }
  return absl::OkStatus();
}

absl::Status AppendLicences(std::vector<uint8_t>& bytes) {
  std::error_code error;
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(kLicences, error)) {
    if (entry.is_regular_file(error) && !entry.is_symlink(error)) paths.push_back(entry.path());
  }
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat("no built-in text: neither ", kJargon,
                                            " (package jargon-text) nor ", kLicences,
                                            " is there; give a file with --data"));
  }
  std::sort(paths.begin(), paths.end());  // every rank must see the same text
  for (const std::string& path : paths) {
    if (absl::Status status = AppendFile(path, bytes); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

size_t WindowCount(const std::vector<uint8_t>& bytes, size_t seq_len) {
  return bytes.empty() ? 0 : (bytes.size() - 1) / seq_len;
}

absl::StatusOr<Corpus> LoadCorpus(const std::string& data, size_t seq_len, size_t min_windows) {
  Corpus corpus{.source = data, .train = {}, .validation = {}};
  if (data == "builtin") corpus.source = std::filesystem::exists(kJargon) ? kJargon : kLicences;
  absl::Status status = corpus.source == kLicences && data == "builtin"
                            ? AppendLicences(corpus.train)
                            : AppendFile(corpus.source, corpus.train);
  if (!status.ok()) return status;

  const size_t size = corpus.train.size();
  const size_t held_out = std::max(size / kHeldOutPart, seq_len + 1);
  const size_t needed = min_windows * seq_len + 1 + held_out;
  if (size < needed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the text ", corpus.source, " has ", size, " bytes; one step of all ranks takes ", needed,
        " with what is held out: give a longer text, or a smaller --batch-size or --seq-len"));
  }
  corpus.validation.assign(corpus.train.end() - held_out, corpus.train.end());
  corpus.train.resize(size - held_out);
  return corpus;
}

}  // namespace ranklog::trainer
