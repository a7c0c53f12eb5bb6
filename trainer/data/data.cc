#include "trainer/data/data.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "trainer/data/text.h"
#include "trainer/data/token_cache.h"
#include "trainer/data/token_file.h"
#include "trainer/parallel/process_group.h"

namespace ranklog::trainer {
namespace {

constexpr int64_t kTokenFileVocabulary = 50257;  // of the tokens that nanoGPT and llm.c write
constexpr size_t kHeldOutPart = 20;              // one in so many tokens is held out

// The data of rank 0, with a summary that the other ranks compare with theirs.
struct Loaded {
  Corpus corpus;
  std::string cached;  // the file in the cache; empty: none
  std::string Summary() const {
    return absl::StrCat(cached, " ", corpus.train.size(), " ", corpus.validation.size());
  }
};

std::string TrainFile(const std::string& data) {
  std::error_code error;
  return std::filesystem::is_directory(data, error) ? absl::StrCat(data, "/train.bin") : data;
}

// The file with the validation tokens; empty if it does not exist.
std::string ValidationFile(const std::string& train) {
  absl::string_view stem = train;
  if (!absl::ConsumeSuffix(&stem, "train.bin")) return "";
  const std::string path = absl::StrCat(stem, "val.bin");
  std::error_code error;
  return std::filesystem::exists(path, error) ? path : "";
}

// `first`: this process reads the data before others do, and checks it.
absl::StatusOr<Tokens> OpenGpt2Tokens(const std::string& path, bool first) {
  absl::StatusOr<Tokens> tokens = OpenTokenFile(path);
  if (!tokens.ok() || !first) return tokens;
  const absl::Status checked = CheckVocabulary(*tokens, kTokenFileVocabulary, path);
  if (!checked.ok()) return checked;
  return tokens;
}

// Unpacking a text again is cheaper than storing it twice on the disk.
absl::StatusOr<Tokens> ByteTokens(const Text& text) {
  if (IsPlainFile(text)) return Tokens::Map(text.files[0], 1);
  std::vector<uint8_t> tokens;
  const absl::Status read = ReadText(text, [&](absl::string_view bytes) {
    tokens.insert(tokens.end(), bytes.begin(), bytes.end());
    return absl::OkStatus();
  });
  if (!read.ok()) return read;
  return Tokens(std::move(tokens));
}

absl::StatusOr<Tokens> LoadText(const DataOptions& options, const std::string& known,
                                DataProgress& progress, Loaded& loaded) {
  const absl::StatusOr<Text> text = FindText(options.data);
  if (!text.ok()) return text.status();
  loaded.corpus.source = text->name;
  loaded.corpus.vocabulary = options.tokenizer.vocabulary();
  if (options.tokenizer.pieces == 0) return ByteTokens(*text);

  const absl::StatusOr<std::string> dir =
      options.cache_dir.empty() ? DefaultCacheDir() : options.cache_dir;
  if (!dir.ok()) return dir.status();
  // Rank 0 sent the name of the file, so that the others do not read the text.
  if (!known.empty()) {
    loaded.cached = known;
    absl::StatusOr<Tokens> tokens = OpenTokenFile(absl::StrCat(*dir, "/", known));
    if (tokens.ok()) return tokens;
  }
  const absl::StatusOr<std::string> name = TokenFileName(*text, options.tokenizer);
  if (!name.ok()) return name.status();
  loaded.cached = *name;
  return OpenOrMakeTokens(*dir, *name, *text, options.tokenizer, progress);
}

absl::Status TooShort(const Corpus& corpus, size_t size, size_t needed) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot train on ", corpus.source, ": it has ", size,
                   " tokens, but one step of all ranks and the validation need ", needed,
                   "; give a longer text, or a smaller --batch-size or --seq-len"));
}

// Moves the end of corpus.train to the validation data.
absl::Status HoldOut(const DataOptions& options, Corpus& corpus) {
  const size_t size = corpus.train.size();
  const size_t held_out = std::max(size / kHeldOutPart, options.seq_len + 1);
  const size_t needed = options.min_windows * options.seq_len + 1 + held_out;
  if (size < needed) return TooShort(corpus, size, needed);
  corpus.validation = corpus.train.Part(size - held_out, held_out);
  corpus.train = corpus.train.Part(0, size - held_out);
  return absl::OkStatus();
}

// `known`: rank 0's file in the cache. `first`: see OpenGpt2Tokens().
absl::StatusOr<Loaded> Load(const DataOptions& options, const std::string& known, bool first,
                            DataProgress& progress) {
  Loaded loaded;
  Corpus& corpus = loaded.corpus;
  corpus.source = options.data;
  std::string validation;
  absl::StatusOr<Tokens> train;
  if (IsTokenData(options.data)) {
    const std::string path = TrainFile(options.data);
    validation = ValidationFile(path);
    corpus.vocabulary = kTokenFileVocabulary;
    train = OpenGpt2Tokens(path, first);
  } else {
    train = LoadText(options, known, progress, loaded);
  }
  if (!train.ok()) return train.status();
  corpus.train = *std::move(train);
  if (validation.empty()) {
    const absl::Status status = HoldOut(options, corpus);
    if (!status.ok()) return status;
    return loaded;
  }
  absl::StatusOr<Tokens> held_out = OpenGpt2Tokens(validation, first);
  if (!held_out.ok()) return held_out.status();
  corpus.validation = *std::move(held_out);
  const size_t needed = options.min_windows * options.seq_len + 1;
  if (corpus.train.size() < needed) return TooShort(corpus, corpus.train.size(), needed);
  if (WindowCount(corpus.validation, options.seq_len) == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot validate on ", validation, ": it has ", corpus.validation.size(),
        " tokens, but a sequence needs ", options.seq_len + 1, "; use a smaller --seq-len"));
  }
  return loaded;
}

}  // namespace

bool IsTokenData(const std::string& data) {
  std::error_code error;
  return absl::EndsWith(data, ".bin") || std::filesystem::is_directory(data, error);
}

absl::Status CheckData(const std::string& data) {
  if (!IsTokenData(data)) return FindText(data).status();
  const absl::Status opened = OpenTokenFile(TrainFile(data)).status();
  std::error_code error;
  if (!absl::IsNotFound(opened) || !std::filesystem::is_directory(data, error)) return opened;
  return absl::NotFoundError(absl::StrCat(
      opened.message(), "; a directory must contain train.bin; for a text, pass a file"));
}

absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, DataProgress& progress) {
  absl::StatusOr<Loaded> loaded = Load(options, "", /*first=*/true, progress);
  if (!loaded.ok()) return loaded.status();
  return std::move(loaded->corpus);
}

absl::StatusOr<Corpus> LoadCorpus(const DataOptions& options, ProcessGroup& group,
                                  DataProgress& progress) {
  absl::StatusOr<Loaded> loaded = absl::UnknownError("not loaded");
  // "+" and the summary of rank 0's data, or "-" and the reason of its failure.
  const std::string answer = group.FromRankZero("corpus", [&] {
    loaded = Load(options, "", /*first=*/true, progress);
    return loaded.ok() ? absl::StrCat("+", loaded->Summary())
                       : absl::StrCat("-", loaded.status().message());
  });
  if (group.rank() == 0) {
    if (!loaded.ok()) return loaded.status();
    return std::move(loaded->corpus);
  }
  absl::string_view theirs = answer;
  if (!absl::ConsumePrefix(&theirs, "+")) {
    return absl::AbortedError(absl::StrCat("rank 0 failed: ", theirs.substr(1)));
  }
  const std::string known(theirs.substr(0, theirs.find(' ')));
  loaded = Load(options, known, /*first=*/false, progress);
  if (!loaded.ok()) return loaded.status();
  if (loaded->Summary() != theirs) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot train on ", options.data,
        ": it differs from the data of rank 0 (cached file, tokens, held out): \"",
        loaded->Summary(), "\" here, \"", theirs, "\" there; give all nodes the same files"));
  }
  return std::move(loaded->corpus);
}

}  // namespace ranklog::trainer
