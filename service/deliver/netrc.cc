#include "service/deliver/netrc.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace ranklog::deliver {
namespace {

// Splits the text at white space. A token may be in double quotes, with backslash escapes. `#` at
// the start of a token begins a comment that ends with the line.
class Tokens {
 public:
  explicit Tokens(absl::string_view text) : text_(text), rest_(text) {}

  bool Next(std::string* token) {
    token->clear();
    while (true) {
      rest_ = absl::StripLeadingAsciiWhitespace(rest_);
      if (rest_.empty()) return false;
      if (rest_[0] != '#') break;
      SkipTo("\n");
    }
    begin_ = end();
    if (rest_[0] == '"') return Quoted(token);
    size_t end = 0;
    while (end < rest_.size() && !absl::ascii_isspace(static_cast<unsigned char>(rest_[end])))
      ++end;
    *token = std::string(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return true;
  }

  // Start and end of the last token in the text.
  size_t begin() const { return begin_; }
  size_t end() const { return text_.size() - rest_.size(); }

  // A macro ends at an empty line.
  void SkipMacro() { SkipTo("\n\n"); }

 private:
  bool Quoted(std::string* token) {
    size_t i = 1;
    for (; i < rest_.size() && rest_[i] != '"'; ++i) {
      if (rest_[i] == '\\' && i + 1 < rest_.size()) ++i;
      *token += rest_[i];
    }
    rest_.remove_prefix(i < rest_.size() ? i + 1 : i);
    return true;
  }

  void SkipTo(absl::string_view end) {
    const size_t at = rest_.find(end);
    rest_.remove_prefix(at == absl::string_view::npos ? rest_.size() : at + end.size());
  }

  const absl::string_view text_;
  absl::string_view rest_;
  size_t begin_ = 0;
};

}  // namespace

absl::optional<std::string> NetrcPassword(absl::string_view text, absl::string_view machine) {
  enum class Entry { kNone, kOther, kWanted, kDefault } entry = Entry::kNone;
  absl::optional<std::string> by_default;
  Tokens tokens(text);
  std::string token;
  while (tokens.Next(&token)) {
    if (token == "machine") {
      if (!tokens.Next(&token)) break;
      entry = token == machine ? Entry::kWanted : Entry::kOther;
    } else if (token == "default") {
      entry = Entry::kDefault;
    } else if (token == "macdef") {
      tokens.SkipMacro();
    } else if (token == "password") {
      if (!tokens.Next(&token)) break;
      if (entry == Entry::kWanted) return token;
      if (entry == Entry::kDefault && !by_default.has_value()) by_default = token;
    } else if (token == "login" || token == "account") {
      if (!tokens.Next(&token)) break;
    }
  }
  return by_default;
}

std::string NetrcWithout(absl::string_view text, absl::string_view machine) {
  std::string others;
  size_t from = 0;  // start of the text that is not copied yet, or of the entry
  bool wanted = false;
  Tokens tokens(text);
  std::string token;
  size_t end = 0;  // end of the last token
  const auto end_entry = [&] {
    if (!wanted) return;
    from = std::min(text.find_first_not_of(" \t\r", end), text.size());
    if (from < text.size() && text[from] == '\n') ++from;
    wanted = false;
  };
  while (tokens.Next(&token)) {
    const size_t begin = tokens.begin();
    if (token == "machine" || token == "default" || token == "macdef") end_entry();
    if (token == "machine") {
      if (!tokens.Next(&token)) break;
      wanted = token == machine;
      if (wanted) absl::StrAppend(&others, text.substr(from, begin - from));
    } else if (token == "macdef") {
      tokens.SkipMacro();
    } else if (token == "password" || token == "login" || token == "account") {
      if (!tokens.Next(&token)) break;
    }
    end = tokens.end();
  }
  end = tokens.end();
  end_entry();
  return absl::StrCat(others, text.substr(from));
}

}  // namespace ranklog::deliver
