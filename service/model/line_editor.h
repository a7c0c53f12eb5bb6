// Turns what a program prints into lines, as a terminal shows them: a progress bar that writes its
// line anew remains one line.

#ifndef SERVICE_MODEL_LINE_EDITOR_H_
#define SERVICE_MODEL_LINE_EDITOR_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "service/model/console_line.h"

namespace ranklog::model {

// As the official client's: 32 lines can still change, a line has at most 4096 characters, and \r,
// \n, ESC [ A and ESC [ B move. Other escapes are text. Bytes that are no UTF-8 become U+FFFD.
class LineEditor {
 public:
  static constexpr size_t kWindow = 32;
  static constexpr size_t kMostCharacters = 4096;

  // `next`: the number of the next line, of all editors that share it; it must outlive them.
  LineEditor(bool error, uint64_t* next) : error_(error), next_(*next) {}

  void Write(absl::string_view bytes, int64_t now_us);
  // The lines that were added or changed since the last call.
  std::vector<ConsoleLine> TakeChanged();

 private:
  struct Line {
    std::optional<uint64_t> number;  // a blank line gets one with the next text
    int64_t time_us = 0;
    std::u32string text;
    bool changed = false;
  };
  enum class Escape { kNone, kBegun, kBracket };

  void WriteCharacter(char32_t character, int64_t now_us);
  void Put(char32_t character, int64_t now_us);
  // Decoded characters, or plain bytes.
  template <typename Characters>
  void PutAll(Characters characters, int64_t now_us);
  void MoveDown();
  void Keep(const Line& line);

  const bool error_;
  uint64_t& next_;
  std::deque<Line> lines_{1};
  size_t row_ = 0;
  size_t column_ = 0;
  Escape escape_ = Escape::kNone;
  std::string digits_;             // of the escape
  std::string partial_;            // the begun bytes of a character
  std::vector<ConsoleLine> left_;  // changed lines that left the window
};

}  // namespace ranklog::model

#endif  // SERVICE_MODEL_LINE_EDITOR_H_
