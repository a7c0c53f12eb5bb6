#include "client/facts/secrets.h"

#include <algorithm>
#include <cctype>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_replace.h"

namespace ranklog::internal {
namespace {

constexpr size_t kShortestCredential = 6;  // a shorter one would garble other texts
constexpr size_t kKeyOfWandb = 40;
constexpr size_t kShortestKey = 16;  // behind a prefix

constexpr std::string_view kKeyPrefixes[] = {"hf_",   "sk-",   "AKIA", "ASIA",      "ghp_",
                                             "gho_",  "ghs_",  "ghu_", "glpat-",    "github_pat_",
                                             "xoxb-", "xoxp-", "AIza", "wandb_v1_", "local-"};

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
    const size_t host = text->rfind('@', end);
    if (host == std::string::npos || host < at || host >= end) continue;
    text->replace(at, host - at, kMasked);
  }
}

void MaskHeader(std::string* text) {
  const std::string lower = absl::AsciiStrToLower(*text);
  for (const std::string_view word : {"authorization:", "bearer ", "basic "}) {
    const size_t at = lower.find(word);
    if (at != std::string::npos)
      return text->replace(at + word.size(), text->npos, kMasked), void();
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
  // A tokenizer is no token.
  const std::string lower = absl::StrReplaceAll(
      absl::AsciiStrToLower(absl::string_view(name.data(), name.size())), {{"tokeniz", ""}});
  for (const char* word :
       {"key", "token", "secret", "password", "passwd", "credential", "auth", "jwt"}) {
    if (lower.find(word) != std::string::npos) return true;
  }
  return false;
}

std::vector<std::string> MaskArguments(std::vector<std::string> arguments,
                                       const std::map<std::string, std::string>& credentials) {
  bool is_value_of_secret = false;
  for (std::string& argument : arguments) {
    const bool is_flag = argument.size() > 1 && argument[0] == '-';
    const bool is_value =
        is_value_of_secret && std::string_view(argument).substr(0, 2) != std::string_view("--");
    is_value_of_secret = false;
    if (is_value) {
      argument = kMasked;
      continue;
    }
    const size_t equals = argument.find('=');
    if ((is_flag || equals != std::string::npos) && IsSecretName(argument.substr(0, equals))) {
      if (equals != std::string::npos) {
        argument.replace(equals + 1, std::string::npos, kMasked);
        continue;
      }
      is_value_of_secret = true;
    }
    MaskCredentials(credentials, &argument);
    MaskUsersOfUrls(&argument);
    MaskHeader(&argument);
    MaskKeys(&argument);
  }
  return arguments;
}

}  // namespace ranklog::internal
