#include "service/model/line_editor.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"

namespace ranklog::model {
namespace {

constexpr char32_t kReplacement = 0xFFFD;
constexpr char32_t kEscape = 0x1B;

// A character of a line, of one byte.
bool IsPlain(char byte) { return byte >= ' ' && byte < '\x7f'; }

// The bytes of a character that begins with `first`; 0: none does.
size_t LengthOf(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

// `bytes` has a whole character by its length. kReplacement: it is none.
char32_t Decode(absl::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  if (bytes.size() == 1) return first;
  char32_t character = first & (0xFFu >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1)) {
    character = (character << 6) | (static_cast<unsigned char>(byte) & 0x3Fu);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  return character < kLeast[bytes.size()] || character > 0x10FFFF || surrogate ? kReplacement
                                                                               : character;
}

void Append(char32_t character, std::string* out) {
  if (character < 0x80) {
    *out += static_cast<char>(character);
    return;
  }
  const int more = character < 0x800 ? 1 : character < 0x10000 ? 2 : 3;
  constexpr char32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
  *out += static_cast<char>(kFirst[more] | (character >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) {
    *out += static_cast<char>(0x80 | ((character >> (6 * i)) & 0x3F));
  }
}

}  // namespace

void LineEditor::Write(absl::string_view bytes, int64_t now_us) {
  while (!bytes.empty()) {
    const char byte = bytes[0];
    if (partial_.empty() && static_cast<unsigned char>(byte) < 0x80) {
      const auto end = std::find_if_not(bytes.begin(), bytes.end(), IsPlain);
      const auto plain = static_cast<size_t>(end - bytes.begin());
      if (escape_ == Escape::kNone && plain > 0) {
        PutAll(bytes.substr(0, plain), now_us);
        bytes.remove_prefix(plain);
      } else {
        WriteCharacter(static_cast<char32_t>(byte), now_us);
        bytes.remove_prefix(1);
      }
      continue;
    }
    bytes.remove_prefix(1);
    const bool continues = (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
    if (!partial_.empty() && !continues) {
      partial_.clear();
      WriteCharacter(kReplacement, now_us);
    }
    partial_ += byte;
    const size_t length = LengthOf(static_cast<unsigned char>(partial_[0]));
    if (partial_.size() < length) continue;
    WriteCharacter(length == 0 ? kReplacement : Decode(partial_), now_us);
    partial_.clear();
  }
}

void LineEditor::WriteCharacter(char32_t character, int64_t now_us) {
  if (escape_ == Escape::kBegun && character == '[') {
    escape_ = Escape::kBracket;
    digits_.clear();
    return;
  }
  if (escape_ == Escape::kBracket && character >= '0' && character <= '9' && digits_.size() < 4) {
    digits_ += static_cast<char>(character);
    return;
  }
  if (escape_ == Escape::kBracket && (character == 'A' || character == 'B')) {
    size_t count = 1;
    if (!digits_.empty() && !absl::SimpleAtoi(digits_, &count)) count = 1;
    count = std::max<size_t>(count, 1);
    escape_ = Escape::kNone;
    if (character == 'A') {
      row_ -= std::min(row_, count);
    } else {
      for (size_t i = 0; i < std::min(count, kWindow); ++i) MoveDown();
    }
    return;
  }
  if (escape_ != Escape::kNone) {  // another one, which is text
    const bool bracket = escape_ == Escape::kBracket;
    escape_ = Escape::kNone;
    Put(kEscape, now_us);
    if (bracket) Put('[', now_us);
    for (const char digit : digits_) Put(static_cast<char32_t>(digit), now_us);
    digits_.clear();
  }
  if (character == kEscape) {
    escape_ = Escape::kBegun;
    digits_.clear();
  } else if (character == '\n') {
    MoveDown();
    column_ = 0;
  } else if (character == '\r') {
    column_ = 0;
  } else if (character != 0) {
    Put(character, now_us);
  }
}

void LineEditor::Put(char32_t character, int64_t now_us) {
  PutAll(std::u32string_view(&character, 1), now_us);
}

template <typename Characters>
void LineEditor::PutAll(Characters characters, int64_t now_us) {
  // A line with a number has only such lines above it.
  for (size_t i = 0; i <= row_ && !lines_[row_].number; ++i) {
    Line& line = lines_[i];
    if (line.number) continue;
    line.number = next_++;
    line.time_us = now_us;
    line.changed = true;
  }
  Line& line = lines_[row_];
  const size_t end = std::min(column_ + characters.size(), kMostCharacters);
  if (line.text.size() < end) line.text.resize(end, ' ');
  for (size_t i = 0; column_ < end; ++i, ++column_) {
    const auto character = static_cast<char32_t>(characters[i]);
    line.changed |= line.text[column_] != character;
    line.text[column_] = character;
  }
}

void LineEditor::MoveDown() {
  if (++row_ < lines_.size()) return;
  lines_.emplace_back();
  if (lines_.size() <= kWindow) return;
  Keep(lines_.front());
  lines_.pop_front();
  --row_;
}

void LineEditor::Keep(const Line& line) {
  if (!line.number || !line.changed) return;
  ConsoleLine kept{.number = *line.number, .time_us = line.time_us, .error = error_};
  for (const char32_t character : line.text) Append(character, &kept.text);
  left_.push_back(std::move(kept));
}

std::vector<ConsoleLine> LineEditor::TakeChanged() {
  for (Line& line : lines_) {
    Keep(line);
    line.changed = false;
  }
  return std::exchange(left_, {});
}

}  // namespace ranklog::model
