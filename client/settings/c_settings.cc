// The functions of ranklog/c.h on settings.

#include "client/settings/c_settings.h"

#include <memory>
#include <string>
#include <utility>

#include "client/base/uncancelled.h"
#include "client/settings/environment.h"
#include "client/settings/validate.h"

namespace {

using ranklog::Settings;
using ranklog::Severity;
using ranklog::internal::FromHandle;
using ranklog::internal::Uncancelled;

// A handle to what `make` returns. Null without memory.
template <typename Make>
ranklog_settings* New(Make make) {
  const Uncancelled uncancelled;
  try {
    return reinterpret_cast<ranklog_settings*>(new Settings(make()));
  } catch (...) {
    return nullptr;
  }
}

}  // namespace

ranklog_settings* ranklog_settings_new() noexcept {
  return New([] { return Settings(); });
}

ranklog_settings* ranklog_settings_from_environment() noexcept {
  return New(ranklog::internal::SettingsFromEnvironment);
}

void ranklog_settings_free(ranklog_settings* settings) noexcept {
  const Uncancelled uncancelled;
  delete FromHandle(settings);
}

bool ranklog_settings_set(ranklog_settings* settings, const char* name, const char* value,
                          size_t value_bytes) noexcept {
  if (settings == nullptr || name == nullptr) return false;
  const Uncancelled uncancelled;
  try {
    return ranklog::header::SettingReader(name, value, value_bytes).Read(FromHandle(settings));
  } catch (...) {  // no memory
    return false;
  }
}

void ranklog_settings_each(const ranklog_settings* settings, ranklog_setting_callback each,
                           void* user) noexcept {
  if (settings == nullptr || each == nullptr) return;
  const Uncancelled uncancelled;
  try {
    ranklog::header::ForEachSetting(*FromHandle(settings),
                                    [&](const std::string& name, std::string_view value) {
                                      each(user, name.c_str(), value.data(), value.size());
                                    });
  } catch (...) {  // no memory
  }
}

void ranklog_settings_validate(const ranklog_settings* settings, ranklog_text_callback each,
                               void* user) noexcept {
  if (settings == nullptr || each == nullptr) return;
  const Uncancelled uncancelled;
  try {
    for (const std::string& error : ranklog::internal::Validate(*FromHandle(settings))) {
      each(user, error.data(), error.size());
    }
  } catch (...) {  // no memory
  }
}

bool ranklog_settings_on_message(ranklog_settings* settings, ranklog_message_callback callback,
                                 void* user, void (*free_user)(void* user)) noexcept {
  const Uncancelled uncancelled;
  try {
    // All copies of the settings share it. If memory is short, the constructor calls free_user.
    std::shared_ptr<void> owner(user, [free_user](void* owned) {
      if (free_user != nullptr) free_user(owned);
    });
    if (settings == nullptr) return false;
    if (callback == nullptr) {
      FromHandle(settings)->on_message = nullptr;
      return true;
    }
    FromHandle(settings)->on_message = [callback, owner = std::move(owner)](
                                           Severity severity, const std::string& text) {
      callback(owner.get(), static_cast<int>(severity), text.data(), text.size());
    };
    return true;
  } catch (...) {  // no memory
    return false;
  }
}

static_assert(static_cast<int>(Severity::kInfo) == RANKLOG_INFO);
static_assert(static_cast<int>(Severity::kWarning) == RANKLOG_WARNING);
static_assert(static_cast<int>(Severity::kError) == RANKLOG_ERROR);
