#ifndef SERVICE_BASE_TEXT_SHELL_WORD_H_
#define SERVICE_BASE_TEXT_SHELL_WORD_H_

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace ranklog {

// `text` as one word of a shell command, for commands in messages: in quotes if it needs them.
inline std::string ShellWord(absl::string_view text) {
  constexpr absl::string_view kPlain = "_./:@%+=,-";
  bool plain = !text.empty();
  for (const char c : text) {
    plain = plain && (absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                      kPlain.find(c) != absl::string_view::npos);
  }
  if (plain) return std::string(text);
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

}  // namespace ranklog

#endif  // SERVICE_BASE_TEXT_SHELL_WORD_H_
