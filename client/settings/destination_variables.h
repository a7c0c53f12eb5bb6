// The settings, users and secrets of destinations. This library knows destinations only by name: the
// daemon knows their settings and checks them.

#ifndef CLIENT_SETTINGS_DESTINATION_VARIABLES_H_
#define CLIENT_SETTINGS_DESTINATION_VARIABLES_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "ranklog/settings.h"

namespace ranklog::internal {

// The destinations whose variables are read although none names them: the daemon may choose them.
inline constexpr const char* kUsualDestinations[] = {"wandb", "mlflow"};

// W&B's offline mode: the daemon writes the run to a directory, the setting `dir`.
inline constexpr char kOffline[] = "offline";

// A name of 1 to 32 small letters, digits and _, that begins with a letter.
bool IsDestinationName(std::string_view name);

// The variables of a destination begin with this: WANDB_.
std::string VariablePrefix(std::string_view destination);

// Limits that keep the Hello well below its space in the ring: bytes of a value, and of all names
// and values of destination_settings, and destinations.
inline constexpr size_t kMaxDestinationValue = 1024;
inline constexpr size_t kMaxDestinationSettings = 8 << 10;
inline constexpr size_t kMaxDestinations = 16;

// Bytes of all names and values.
size_t DestinationSettingsBytes(const Settings& settings);

// Whether a variable is of this destination and its name suggests a secret or a user.
bool IsSecretOf(std::string_view destination, std::string_view variable);

// Adds variables of the destination, except those that other settings read: those that suggest a
// secret or a user to credentials, those that name a place (_URL, _URI, _HOST, _PORT, _NAME,
// _DATABASE, _TABLE, _FROM, _ID) or its way (_TLS, _CERT_PATH, _INTERVAL) to destination_settings. All others may be secrets too, and no destination
// needs them. For kOffline, adds the `dir`: WANDB_DIR, relative to the current directory, which is
// also the default. Does not replace an entry.
void ReadVariablesOf(const std::string& destination, Settings* settings);

// Moves users and passwords in URLs, and settings with the name of a secret, to credentials.
// Removes white space around values.
void SeparateSecrets(Settings* settings);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_DESTINATION_VARIABLES_H_
