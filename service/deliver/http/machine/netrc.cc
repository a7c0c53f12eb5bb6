#include "service/deliver/http/machine/netrc.h"

#include <algorithm>
#include <utility>
#include <vector>

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

struct Entry {
  std::string machine;
  std::string account;
  NetrcEntry content;
  bool is_default = false;
  bool has_password = false;
  size_t begin = 0;  // its place in the text
  size_t end = 0;
};

std::vector<Entry> Entries(absl::string_view text) {
  std::vector<Entry> entries;
  bool open = false;  // the last entry continues
  Tokens tokens(text);
  std::string token;
  while (tokens.Next(&token)) {
    const size_t begin = tokens.begin();
    if (token == "machine" || token == "default") {
      open = true;
      entries.emplace_back();
      entries.back().is_default = token == "default";
      entries.back().begin = begin;
      if (token == "machine") tokens.Next(&entries.back().machine);
    } else if (token == "macdef") {
      open = false;
      tokens.SkipMacro();
    } else if (token == "password" || token == "login" || token == "account") {
      std::string value;
      const bool has_value = tokens.Next(&value);
      if (open && has_value) {
        Entry& entry = entries.back();
        entry.has_password |= token == "password";
        // The first value counts.
        std::string& member = token == "password" ? entry.content.password
                              : token == "login"  ? entry.content.login
                                                  : entry.account;
        if (member.empty()) member = std::move(value);
      }
    }
    if (open) entries.back().end = tokens.end();
  }
  return entries;
}

}  // namespace

absl::optional<NetrcEntry> NetrcEntryOf(absl::string_view text, absl::string_view machine,
                                        absl::string_view project) {
  // Entries from the least to the most specific.
  absl::optional<NetrcEntry> by_default, of_machine, of_project;
  for (const Entry& entry : Entries(text)) {
    if (!entry.has_password) continue;
    absl::optional<NetrcEntry>* place = &by_default;
    if (!entry.is_default) {
      if (entry.machine != machine) continue;
      if (!entry.account.empty() && entry.account != project) continue;
      place = entry.account.empty() ? &of_machine : &of_project;
    }
    if (!place->has_value()) *place = entry.content;
  }
  if (of_project) return of_project;
  return of_machine ? of_machine : by_default;
}

std::string NetrcWithout(absl::string_view text, absl::string_view machine,
                         absl::string_view project) {
  std::string others;
  size_t from = 0;  // start of the text that is not copied yet
  for (const Entry& entry : Entries(text)) {
    if (entry.is_default || entry.machine != machine || entry.account != project) continue;
    absl::StrAppend(&others, text.substr(from, entry.begin - from));
    from = std::min(text.find_first_not_of(" \t\r", entry.end), text.size());
    if (from < text.size() && text[from] == '\n') ++from;
  }
  return absl::StrCat(others, text.substr(from));
}

}  // namespace ranklog::deliver
