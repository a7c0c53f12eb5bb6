// ranklog-bpe TEXT VOCABULARY MODEL TOKENS: trains SentencePiece's BPE on the file TEXT. Writes the
// model, and the text's tokens from byte 1024 of TOKENS (data.md describes both).
//
// A separate program, started by ranklog-train: libsentencepiece exports an old Protobuf and
// flags with Abseil's names, which break gRPC's and LibTorch's in the same process.
//
// Writes a line to stdout after the training ("trained"), after each part of the text ("at BYTES"),
// and after a failure ("error: REASON"; exit code 1).

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
#include <signal.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

using sentencepiece::SentencePieceProcessor;
using sentencepiece::SentencePieceTrainer;
using sentencepiece::util::Status;

constexpr size_t kLongestLine = 16384;  // bytes; longer ones are cut
constexpr uint64_t kTrainingBytes = uint64_t{64}
                                    << 20;  // more text takes GB, but gives no better pieces
constexpr uint64_t kHeldOutPart = 20;       // one in so many bytes at the end: for validation
constexpr uint64_t kReportBytes = 1 << 18;
constexpr size_t kHeader = 1024;  // bytes of TOKENS, written by ranklog-train

// The lines of a file with their newlines, each at most kLongestLine bytes, cut between characters.
class Lines {
 public:
  explicit Lines(const std::string& path) : file_(path, std::ios::binary) {}

  bool Next(std::string& line) {
    line.swap(rest_);
    rest_.clear();
    char byte = 0;
    while ((line.empty() || line.back() != '\n') && file_.get(byte)) {
      // A byte that continues a character of UTF-8 is 10xxxxxx.
      if (line.size() >= kLongestLine && (byte & 0xc0) != 0x80) {
        rest_.push_back(byte);
        break;
      }
      line.push_back(byte);
    }
    read_ += line.size();
    return !line.empty();
  }

  uint64_t read() const { return read_; }  // bytes
  bool failed() const { return !file_.eof(); }

 private:
  std::ifstream file_;
  std::string rest_;
  uint64_t read_ = 0;
};

// The lines for the training: evenly spread over the text without its end.
class TrainingLines : public sentencepiece::SentenceIterator {
 public:
  TrainingLines(const std::string& path, uint64_t bytes)
      : lines_(path),
        end_(bytes - bytes / kHeldOutPart),
        every_((end_ + kTrainingBytes - 1) / kTrainingBytes) {
    Next();
  }

  bool done() const override { return done_; }
  const std::string& value() const override { return line_; }
  Status status() const override { return Status(); }
  void Next() override {
    do {
      done_ = lines_.read() >= end_ || !lines_.Next(line_);
    } while (!done_ && count_++ % every_ != 0);
    if (!line_.empty() && line_.back() == '\n') line_.pop_back();  // not part of a piece
  }

 private:
  Lines lines_;
  const uint64_t end_;
  const uint64_t every_;
  uint64_t count_ = 0;
  std::string line_;
  bool done_ = false;
};

Status Train(const std::string& text, uint64_t bytes, const std::string& vocabulary,
             std::string& model) {
  TrainingLines lines(text, bytes);
  return SentencePieceTrainer::Train({{"model_type", "bpe"},
                                      {"vocab_size", vocabulary},
                                      {"byte_fallback", "true"},
                                      {"normalization_rule_name", "identity"},
                                      {"add_dummy_prefix", "false"},
                                      {"remove_extra_whitespaces", "false"},
                                      {"allow_whitespace_only_pieces", "true"},
                                      {"max_sentence_length", std::to_string(2 * kLongestLine)},
                                      {"unk_id", "0"},
                                      {"bos_id", "-1"},
                                      {"eos_id", "-1"},
                                      {"pad_id", "-1"},
                                      {"minloglevel", "3"}},
                                     &lines, &model);
}

// The number after `words` in `text`; empty if there is no number.
std::string NumberAfter(const std::string& text, const std::string& words) {
  const size_t at = text.find(words);
  if (at == std::string::npos) return "";
  const size_t begin = at + words.size();
  return text.substr(begin, text.find_first_not_of("0123456789", begin) - begin);
}

constexpr long kFewestPieces = 258;  // of --tokenizer, see tokenizer.cc

// The reason of a failed training. Known messages of SentencePiece are translated to our options.
std::string WhyNotTrained(const Status& status) {
  const std::string text = status.ToString();
  if (text.find("sentences_.empty()") != std::string::npos) return "it has no text to learn from";
  if (const std::string most = NumberAfter(text, "to a value <= "); !most.empty()) {
    const bool allowed = std::stol(most) >= kFewestPieces;
    return "it gives no more than " + most + " pieces: use " + (allowed ? "bpe:" + most : "bytes") +
           ", or a longer text";
  }
  if (const std::string least = NumberAfter(text, " vs ");
      !least.empty() && text.find("required_chars") != std::string::npos)
    return "its characters alone take " + least + " pieces: use bpe:" + least + " or more";
  return text;
}

int Fail(const std::string& reason) {
  std::cout << "error: " << reason << std::endl;
  return 1;
}

int WriteTokens(const SentencePieceProcessor& pieces, const std::string& text,
                const std::string& path) {
  std::ofstream tokens(path, std::ios::binary);
  tokens.seekp(kHeader);
  Lines lines(text);
  std::string line;
  std::vector<int> ids;
  uint64_t reported = 0;
  while (lines.Next(line)) {
    if (const Status status = pieces.Encode(line, &ids); !status.ok())
      return Fail(status.ToString());
    const std::vector<uint16_t> narrow(ids.begin(), ids.end());
    tokens.write(reinterpret_cast<const char*>(narrow.data()), narrow.size() * sizeof(uint16_t));
    if (lines.read() < reported + kReportBytes) continue;
    reported = lines.read();
    std::cout << "at " << reported << std::endl;
  }
  if (lines.failed()) return Fail("cannot read " + text + ": " + std::strerror(errno));
  if (!tokens.flush()) return Fail("cannot write " + path + ": " + std::strerror(errno));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the tokens are useless once the trainer has ended
  if (argc != 5) return Fail("usage: ranklog-bpe TEXT VOCABULARY MODEL TOKENS");
  const std::string text = argv[1], model_path = argv[3];
  std::ifstream size(text, std::ios::binary | std::ios::ate);
  if (!size) return Fail("cannot open " + text + ": " + std::strerror(errno));
  std::string model;
  Status status = Train(text, static_cast<uint64_t>(size.tellg()), argv[2], model);
  if (!status.ok()) return Fail(WhyNotTrained(status));
  std::cout << "trained" << std::endl;
  if (!(std::ofstream(model_path, std::ios::binary) << model).flush())
    return Fail("cannot write " + model_path + ": " + std::strerror(errno));

  SentencePieceProcessor pieces;
  status = pieces.LoadFromSerializedProto(model);
  if (!status.ok()) return Fail(status.ToString());
  return WriteTokens(pieces, text, argv[4]);
}
