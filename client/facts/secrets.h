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
// password, passwd, credential, auth or jwt, in small or capital letters.
bool IsSecretName(std::string_view name);

// The arguments with kMasked in place of
//   - the value of a flag with a secret name: --api-key=X, --api-key X, api_key=X
//   - user and password of a URL
//   - a value of `credentials`, wherever it occurs
//   - what has the form of a key: 40 hexadecimal digits, hf_..., sk-..., AKIA... and similar ones
// A flag such as --tokenizer counts as secret, too: better one fact less.
std::vector<std::string> MaskArguments(std::vector<std::string> arguments,
                                       const std::map<std::string, std::string>& credentials);

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_SECRETS_H_
