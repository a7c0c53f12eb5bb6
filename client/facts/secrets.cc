#include "client/facts/secrets.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"

namespace ranklog::internal {
namespace {

constexpr size_t kShortestCredential = 6;  // a shorter one would garble other texts
constexpr size_t kKeyOfWandb = 40;
constexpr size_t kShortestKey = 16;  // behind a prefix

constexpr std::string_view kKeyPrefixes[] = {
    "hf_",       "sk-",    "AKIA",        "ASIA",  "ghp_",  "gho_", "ghs_",
    "ghu_",      "glpat-", "github_pat_", "xoxb-", "xoxp-", "AIza", "eyJ",  // a JSON web token
    "wandb_v1_", "local-"};

bool IsOfKey(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
}

bool IsHex(std::string_view text) {
  return text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

bool LooksLikeKey(std::string_view word) {
  if (word.size() == kKeyOfWandb && IsHex(word)) return true;
  return std::any_of(std::begin(kKeyPrefixes), std::end(kKeyPrefixes),
                     [&](std::string_view prefix) {
                       return word.substr(0, prefix.size()) == prefix &&
                              word.size() >= prefix.size() + kShortestKey;
                     });
}

void MaskKeys(std::string* text) {
  for (size_t begin = 0; begin < text->size(); ++begin) {
    if (!IsOfKey((*text)[begin])) continue;
    size_t end = begin;
    while (end < text->size() && IsOfKey((*text)[end])) ++end;
    if (LooksLikeKey(std::string_view(*text).substr(begin, end - begin))) {
      text->replace(begin, end - begin, kMasked);
      end = begin + kMasked.size();
    }
    begin = end;
  }
}

void MaskUsersOfUrls(std::string* text) {
  constexpr std::string_view kScheme = "://";
  for (size_t at = text->find(kScheme); at != std::string::npos; at = text->find(kScheme, at)) {
    at += kScheme.size();
    const size_t end = std::min(text->find_first_of("/?# \t\n\"'", at), text->size());
    const size_t user = std::string_view(*text).substr(at, end - at).rfind('@');
    if (user != std::string_view::npos) text->replace(at, user, kMasked);
  }
}

// Also what follows in other words: "Authorization: Basic X".
void MaskHeader(std::string* text) {
  const std::string lower = absl::AsciiStrToLower(*text);
  for (const std::string_view word : {"authorization:", "bearer ", "basic "}) {
    const size_t at = lower.find(word);
    if (at == std::string::npos || at + word.size() == text->size()) continue;
    text->replace(at + word.size(), text->npos, kMasked);
    return;
  }
}

bool IsOfName(char c) { return IsOfKey(c) || c == '.'; }

// A number of tokens, a position of a key.
bool IsHarmless(std::string_view name, std::string_view value) {
  double number = 0;
  const std::string lower = absl::AsciiStrToLower(absl::string_view(name.data(), name.size()));
  return (absl::StrContains(lower, "token") || absl::StrContains(lower, "key")) &&
         value.size() < kShortestKey &&
         absl::SimpleAtod(absl::string_view(value.data(), value.size()), &number);
}

// NAME=VALUE and NAME: VALUE inside a text, where each may be quoted: {"api_key": "X"}, a=1,token=X.
void MaskNamedValues(std::string* text) {
  for (size_t at = text->find_first_of("=:"); at != std::string::npos;
       at = text->find_first_of("=:", at + 1)) {
    size_t name_end = at;
    while (name_end > 0 && absl::StrContains("\"' ", (*text)[name_end - 1])) --name_end;
    size_t name_begin = name_end;
    while (name_begin > 0 && IsOfName((*text)[name_begin - 1])) --name_begin;
    const std::string name = text->substr(name_begin, name_end - name_begin);
    if (!IsSecretName(name)) continue;
    size_t begin = std::min(text->find_first_not_of(' ', at + 1), text->size());
    const bool quoted = begin < text->size() && absl::StrContains("\"'", (*text)[begin]);
    const char quote[] = {quoted ? (*text)[begin] : ' ', '\0'};
    begin += quoted ? 1 : 0;
    const size_t end =
        std::min(text->find_first_of(quoted ? quote : " \t\n,;&\"'})]", begin), text->size());
    const std::string value = text->substr(begin, end - begin);
    const bool is_url = (*text)[at] == ':' && absl::StartsWith(value, "//");
    if (value.empty() || is_url || IsHarmless(name, value)) continue;
    text->replace(begin, end - begin, kMasked);
    at = begin + kMasked.size() - 1;
  }
}

void MaskCredentials(const std::map<std::string, std::string>& credentials, std::string* text) {
  for (const auto& [name, value] : credentials) {
    if (*text == value && !value.empty()) *text = kMasked;
    if (value.size() < kShortestCredential) continue;
    for (size_t at = text->find(value); at != std::string::npos; at = text->find(value, at)) {
      text->replace(at, value.size(), kMasked);
      at += kMasked.size();
    }
  }
}

}  // namespace

bool IsSecretName(std::string_view name) {
  // A tokenizer is no token, and an author no authorization.
  const std::string lower =
      absl::StrReplaceAll(absl::AsciiStrToLower(absl::string_view(name.data(), name.size())),
                          {{"tokeniz", ""}, {"authoriz", "auth"}, {"author", ""}});
  for (const char* word : {"key", "token", "secret", "password", "passwd", "passphrase", "pwd",
                           "credential", "auth", "bearer", "jwt"}) {
    if (absl::StrContains(lower, word)) return true;
  }
  const size_t last = lower.find_last_of("-_.");
  return lower.substr(last == std::string::npos ? 0 : last + 1) == "pass";
}

std::string MaskText(std::string text, const std::map<std::string, std::string>& credentials) {
  MaskCredentials(credentials, &text);
  MaskUsersOfUrls(&text);
  MaskHeader(&text);
  MaskNamedValues(&text);
  MaskKeys(&text);
  return text;
}

std::vector<std::string> MaskArguments(std::vector<std::string> arguments,
                                       const std::map<std::string, std::string>& credentials) {
  std::string name;  // of the secret whose value the next argument is
  for (std::string& argument : arguments) {
    const std::string before = std::exchange(name, "");
    const std::string lower = absl::AsciiStrToLower(argument);
    const bool is_scheme = lower == "bearer" || (before == "authorization" && lower == "basic");
    if (absl::EndsWith(lower, "authorization:") || is_scheme) {
      name = is_scheme ? "bearer" : "authorization";
      continue;
    }
    if (!before.empty() && !absl::StartsWith(argument, "--")) {
      if (!IsHarmless(before, argument)) argument = kMasked;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string first = argument.substr(0, equals);
    const bool is_flag = argument.size() > 1 && argument[0] == '-';
    const bool is_name = first.find_first_of(" :\"'") == std::string::npos && IsSecretName(first);
    if (is_name && equals != std::string::npos) {
      if (!IsHarmless(first, argument.substr(equals + 1))) {
        argument.replace(equals + 1, std::string::npos, kMasked);
      }
      continue;
    }
    if (is_name && is_flag) name = first;
    argument = MaskText(std::move(argument), credentials);
  }
  return arguments;
}

}  // namespace ranklog::internal
