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
inline constexpr const char* kUsualDestinations[] = {"wandb"};

// A name of 1 to 32 small letters, digits and _, that begins with a letter.
bool IsDestinationName(std::string_view name);

// The variables of a destination begin with this: WANDB_.
std::string VariablePrefix(std::string_view destination);

// Limits that keep the Hello well below its space in the ring: bytes of a value, and of all names
// and values of destination_settings.
inline constexpr size_t kMaxDestinationValue = 1024;
inline constexpr size_t kMaxDestinationSettings = 8 << 10;

// Bytes of all names and values.
size_t DestinationSettingsBytes(const Settings& settings);

// Adds the destination's variables, except those that other settings read: to credentials if the
// name suggests a secret or a user, else to destination_settings. Does not replace an entry. Leaves
// out what exceeds the limits or is not UTF-8.
void ReadVariablesOf(const std::string& destination, Settings* settings);

// Moves users and passwords in URLs to credentials, and removes white space around values.
void SeparateSecrets(Settings* settings);

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_DESTINATION_VARIABLES_H_
