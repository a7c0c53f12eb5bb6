// Removes secrets from texts that are recorded as facts of a process.

#ifndef CLIENT_FACTS_SECRETS_H_
#define CLIENT_FACTS_SECRETS_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ranklog::internal {

// What replaces a secret.
inline constexpr std::string_view kMasked = "***";

// Whether a flag or a variable of this name has a secret: the name contains key, token, secret,
// password, passwd, passphrase, pwd, credential, auth, bearer or jwt, or its last word is pass, in
// small or capital letters. tokenizer and author do not count.
bool IsSecretName(std::string_view name);

// The text with kMasked in place of
//   - the value of a secret name: api_key=X, {"api_key": "X"}, X-Api-Key: X. Not a short number of
//     a name with key or token: num_tokens=512
//   - what follows Authorization:, Bearer or Basic
//   - user and password of a URL
//   - a value of `credentials`, wherever it occurs
//   - what has the form of a key: 40 hexadecimal digits, hf_..., sk-..., AKIA... and similar ones
std::string MaskText(std::string text, const std::map<std::string, std::string>& credentials);

// The same for each argument, and for the argument after a secret one: --api-key X.
std::vector<std::string> MaskArguments(std::vector<std::string> arguments,
                                       const std::map<std::string, std::string>& credentials);

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_SECRETS_H_
