// A ranklog_settings is a Settings of the library.

#ifndef CLIENT_SETTINGS_C_SETTINGS_H_
#define CLIENT_SETTINGS_C_SETTINGS_H_

#include "ranklog/c.h"
#include "ranklog/settings.h"

namespace ranklog::internal {

inline Settings* FromHandle(ranklog_settings* settings) {
  return reinterpret_cast<Settings*>(settings);
}
inline const Settings* FromHandle(const ranklog_settings* settings) {
  return reinterpret_cast<const Settings*>(settings);
}
inline const ranklog_settings* ToHandle(const Settings* settings) {
  return reinterpret_cast<const ranklog_settings*>(settings);
}

}  // namespace ranklog::internal

#endif  // CLIENT_SETTINGS_C_SETTINGS_H_
