// Tests of settings from environment variables.

#ifndef TESTS_CLIENT_SETTINGS_FIXTURE_H_
#define TESTS_CLIENT_SETTINGS_FIXTURE_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <map>
#include <string>

#include "ranklog/settings.h"

extern char** environ;

namespace ranklog::testing {

// Starts with an empty environment, and restores it for later tests of this process.
class SettingsTest : public ::testing::Test {
 protected:
  SettingsTest() {
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string text = *entry;
      const size_t size = text.find('=');
      if (size != std::string::npos) before_[text.substr(0, size)] = text.substr(size + 1);
    }
    clearenv();
  }
  ~SettingsTest() override { Set(before_); }

  Settings From(const std::map<std::string, std::string>& variables) {
    Set(variables);
    return Settings::FromEnvironment();
  }

 private:
  static void Set(const std::map<std::string, std::string>& variables) {
    clearenv();
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  }

  std::map<std::string, std::string> before_;
};

}  // namespace ranklog::testing

#endif  // TESTS_CLIENT_SETTINGS_FIXTURE_H_
