#include "trainer/data/token_cache.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/time/clock.h"
#include "trainer/base/durable_file.h"
#include "trainer/base/lock_file.h"
#include "trainer/data/token_file.h"

namespace ranklog::trainer {
namespace {

// Increment the number when the tokens for the same text, or their format, change.
constexpr char kCacheVersion[] = "ranklog tokens 1";
constexpr size_t kKeyBytes = 16;  // of the SHA-256: two texts never have the same

absl::Status Unusable(const std::string& dir, const char* what, const std::string& reason) {
  return absl::FailedPreconditionError(absl::StrCat("cannot ", what, " the cache of tokens ", dir,
                                                    ": ", reason,
                                                    "; choose another directory with --cache-dir"));
}

// The lock of the process that writes to the cache.
absl::StatusOr<LockFile> TakeLock(const std::string& dir, DataProgress& progress) {
  const absl::Status made = CreateDirectories(dir);
  if (!made.ok()) return Unusable(dir, "create", std::string(made.message()));
  if (access(dir.c_str(), W_OK) != 0) return Unusable(dir, "write", std::strerror(errno));
  absl::StatusOr<LockFile> lock = LockFile::Open(dir);
  if (!lock.ok()) return Unusable(dir, "lock", std::string(lock.status().message()));
  absl::Status taken = lock->TryTake();
  if (absl::IsUnavailable(taken)) {
    progress.Print(absl::StrCat("waiting for another process that writes tokens to ", dir));
    taken = lock->Take();
  }
  if (!taken.ok()) return Unusable(dir, "lock", std::string(taken.message()));
  return lock;
}

// The cached tokens, or the reason to make them.
absl::StatusOr<Tokens> OpenCached(const std::string& path, const Tokenizer& tokenizer) {
  absl::StatusOr<Tokens> tokens = OpenTokenFile(path);
  std::error_code error;
  if (tokens.ok() && !std::filesystem::exists(absl::StrCat(path, ".model"), error)) {
    return absl::DataLossError(
        absl::StrCat("cannot read the tokens ", path, ": ", path, ".model is missing"));
  }
  if (!tokens.ok()) return tokens;
  const absl::Status checked = CheckVocabulary(*tokens, tokenizer.vocabulary(), path);
  if (!checked.ok()) return checked;
  return tokens;
}

// The text as a plain file. If it is not one, writes it to `unpacked`.
absl::StatusOr<std::string> PlainFile(const Text& text, const std::string& unpacked) {
  if (IsPlainFile(text)) return text.files[0];
  std::ofstream file(unpacked, std::ios::binary);
  const auto failure = [&] {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", unpacked, ": ", std::strerror(errno)));
  };
  const absl::Status read = ReadText(text, [&](absl::string_view bytes) {
    file.write(bytes.data(), bytes.size());
    return file ? absl::OkStatus() : failure();
  });
  if (!read.ok()) return read;
  if (!file.flush()) return failure();
  return unpacked;
}

absl::Status MakeTokens(const std::string& path, const Text& text, const Tokenizer& tokenizer,
                        DataProgress& progress) {
  const std::string unpacked = absl::StrCat(path, ".text.tmp");
  const absl::Cleanup remove = [&] { unlink(unpacked.c_str()); };
  const absl::StatusOr<std::string> plain = PlainFile(text, unpacked);
  if (!plain.ok()) return plain.status();
  absl::StatusOr<DurableFile> model = DurableFile::Create(absl::StrCat(path, ".model"));
  if (!model.ok()) return model.status();
  absl::StatusOr<DurableFile> tokens = DurableFile::Create(path);
  if (!tokens.ok()) return tokens.status();
  absl::Status status = WriteBpeTokens(*plain, text.name, tokenizer, model->temporary(),
                                       tokens->temporary(), progress);
  if (status.ok()) status = WriteTokenFileHeader(tokens->temporary());
  if (status.ok()) status = model->Commit();  // first: no tokens without their model
  return status.ok() ? tokens->Commit() : status;
}

}  // namespace

absl::StatusOr<std::string> DefaultCacheDir() {
  for (const auto& [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "/ranklog"}, std::pair{"HOME", "/.cache/ranklog"}}) {
    const absl::string_view value =
        absl::StripAsciiWhitespace(absl::NullSafeStringView(std::getenv(variable)));
    if (absl::StartsWith(value, "/")) return absl::StrCat(value, below);
  }
  return absl::FailedPreconditionError(
      "cannot choose a directory for the cache of tokens: HOME and XDG_CACHE_HOME are not absolute "
      "paths; set one of them, or give --cache-dir");
}

absl::StatusOr<std::string> TokenFileName(const Text& text, const Tokenizer& tokenizer) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  bool good = EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1;
  const auto add = [&](absl::string_view bytes) {
    good = good && EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) == 1;
    return absl::OkStatus();
  };
  (void)add(absl::StrCat(kCacheVersion, "\n", tokenizer.name(), "\n"));
  const absl::Status read = ReadFiles(text, add);
  if (!read.ok()) return read;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  good = good && EVP_DigestFinal_ex(context.get(), digest.data(), nullptr) == 1;
  if (!good) return absl::InternalError("cannot hash the text: OpenSSL has no SHA-256");
  return absl::StrCat(absl::BytesToHexString(absl::string_view(
                          reinterpret_cast<const char*>(digest.data()), kKeyBytes)),
                      ".bin");
}

absl::StatusOr<Tokens> OpenOrMakeTokens(const std::string& dir, const std::string& name,
                                        const Text& text, const Tokenizer& tokenizer,
                                        DataProgress& progress) {
  const std::string path = absl::StrCat(dir, "/", name);
  absl::StatusOr<Tokens> tokens = OpenCached(path, tokenizer);
  if (tokens.ok()) {
    progress.Print(
        absl::StrCat("tokens of ", text.name, " (", tokenizer.name(), ") from the cache: ", path));
    return tokens;
  }
  const absl::StatusOr<LockFile> lock = TakeLock(dir, progress);
  if (!lock.ok()) return lock.status();
  tokens = OpenCached(path, tokenizer);  // another process may have made it during the wait
  if (tokens.ok()) return tokens;
  if (!absl::IsNotFound(tokens.status())) {
    progress.Print(absl::StrCat("making the cached tokens again: ", tokens.status().message()));
  }
  const absl::Time begin = absl::Now();
  const absl::Status made = MakeTokens(path, text, tokenizer, progress);
  if (!made.ok()) return made;
  tokens = OpenTokenFile(path);
  if (tokens.ok()) {
    progress.Print(absl::StrFormat("tokens of %s (%s) made in %.1f s: %d in %s", text.name,
                                   tokenizer.name(), absl::ToDoubleSeconds(absl::Now() - begin),
                                   tokens->size(), path));
  }
  return tokens;
}

}  // namespace ranklog::trainer
