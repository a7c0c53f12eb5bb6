#include "trainer/data/token_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"

namespace ranklog::trainer {
namespace {

// Source of the format: llm.c, dev/data/data_common.py and llmc/dataloader.h. The rest is zero.
using TokenHeader = std::array<int32_t, 256>;
static_assert(sizeof(TokenHeader) == kTokenFileHeader);
constexpr int32_t kMagic = 20240520;
constexpr int32_t kHeaderVersion = 1;
constexpr int32_t kLlama3Magic = 20240801;  // the same header before 32-bit tokens

absl::Status BadFile(absl::StatusCode code, const std::string& path, const std::string& reason) {
  return absl::Status(code, absl::StrCat("cannot read the tokens ", path, ": ", reason));
}

// The tokens after a header of llm.c, which is checked.
absl::StatusOr<Tokens> OpenAfterHeader(const std::string& path, const TokenHeader& header,
                                       size_t size) {
  if (size < sizeof header) {
    return BadFile(absl::StatusCode::kDataLoss, path,
                   absl::StrCat("damaged: the file has ", size, " bytes, its header needs ",
                                kTokenFileHeader));
  }
  if (header[1] != kHeaderVersion) {
    return BadFile(
        absl::StatusCode::kInvalidArgument, path,
        absl::StrCat("version ", header[1], " of llm.c's format; version 1 is supported"));
  }
  const int64_t tokens = header[2];
  const auto expected = static_cast<int64_t>(sizeof header) + tokens * 2;
  if (tokens < 0 || static_cast<int64_t>(size) != expected) {
    return BadFile(absl::StatusCode::kDataLoss, path,
                   absl::StrCat("damaged: its header counts ", tokens, " tokens, which need ",
                                expected, " bytes, but the file has ", size));
  }
  if (tokens == 0) {
    return BadFile(absl::StatusCode::kInvalidArgument, path, "it has no tokens");
  }
  return Tokens::Map(path, 2, sizeof header);
}

}  // namespace

absl::StatusOr<Tokens> OpenTokenFile(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  if (error) return BadFile(absl::StatusCode::kNotFound, path, error.message());
  if (size == 0) return BadFile(absl::StatusCode::kInvalidArgument, path, "it is empty");
  TokenHeader header = {};
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(header.data()), sizeof header);
  if (header[0] == kMagic) return OpenAfterHeader(path, header, size);
  if (header[0] == kLlama3Magic) {
    return BadFile(absl::StatusCode::kInvalidArgument, path,
                   "llm.c's format of 32-bit tokens (Llama 3); 16-bit tokens are supported");
  }
  return Tokens::Map(path, 2);
}

absl::Status CheckVocabulary(const Tokens& tokens, int64_t vocabulary, const std::string& path) {
  const int64_t largest = tokens.Largest();
  if (largest < vocabulary) return absl::OkStatus();
  return BadFile(
      absl::StatusCode::kInvalidArgument, path,
      absl::StrCat("it contains token ", largest, ", but the vocabulary has 0 to ", vocabulary - 1,
                   "; give uint16 tokens of GPT-2, as nanoGPT and llm.c write them"));
}

absl::Status WriteTokenFileHeader(const std::string& path) {
  std::error_code error;
  const uint64_t size = std::filesystem::file_size(path, error);
  const uint64_t tokens = error || size < kTokenFileHeader ? 0 : (size - kTokenFileHeader) / 2;
  if (tokens > std::numeric_limits<int32_t>::max()) {
    return absl::OutOfRangeError(absl::StrCat("cannot write ", path, ": it has ", tokens,
                                              " tokens, but llm.c's format allows 2^31 - 1"));
  }
  const TokenHeader header = {kMagic, kHeaderVersion, static_cast<int32_t>(tokens)};
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.write(reinterpret_cast<const char*>(header.data()), sizeof header).flush();
  if (file) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", path, ": ", std::strerror(errno)));
}

}  // namespace ranklog::trainer
