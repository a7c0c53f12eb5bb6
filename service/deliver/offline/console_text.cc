#include "service/deliver/offline/console_text.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ranklog::deliver::offline {
namespace {

constexpr absl::string_view kUp = "\x1b[A", kDown = "\x1b[B";

size_t Characters(absl::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

std::string Repeated(absl::string_view text, size_t times) {
  std::string repeated;
  while (times-- > 0) absl::StrAppend(&repeated, text);
  return repeated;
}

}  // namespace

std::string NewConsoleLine(bool first, absl::string_view text) {
  return absl::StrCat(first ? "" : "\n", text);
}

std::string ChangedConsoleLine(size_t up, size_t width, absl::string_view text) {
  const size_t now = Characters(text);
  return absl::StrCat(Repeated(kUp, up), "\r", text,
                      std::string(width > now ? width - now : 0, ' '), Repeated(kDown, up));
}

size_t ConsoleWidth(absl::string_view output) {
  while (absl::ConsumePrefix(&output, kUp)) {
  }
  while (absl::ConsumeSuffix(&output, kDown)) {
  }
  if (!absl::ConsumePrefix(&output, "\r")) absl::ConsumePrefix(&output, "\n");
  return Characters(output);
}

}  // namespace ranklog::deliver::offline
