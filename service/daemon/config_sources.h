// Where each value of ranklogd's configuration comes from. For config.cc; includes CLI11.

#ifndef SERVICE_DAEMON_CONFIG_SOURCES_H_
#define SERVICE_DAEMON_CONFIG_SOURCES_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace ranklog::daemon {

// Reads a configuration file as CLI11 does, but values in quotes as TOML has them, and remembers in
// which line each key stands.
class LinedConfig : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
  int LineOf(const std::string& key) const;  // 0: it is not there

 private:
  mutable std::map<std::string, int> lines_;  // from_config() is const
};

// The options of `app`, which was parsed, but for those that are no setting (--help).
std::vector<std::string> SettingsOf(const CLI::App& app);

struct PrintedValue {
  std::string value;     // what counts, where CLI11 does not know it; empty: nothing does
  std::string variable;  // that it comes from where no flag and no file says it; empty: none
};

// A line for each setting, as of a configuration file, with the source behind it:
//   drain = "2m"             # /etc/ranklogd.toml:3
// So it is a configuration file. Settings without a value are comments. `special`: of settings whose
// value or variable CLI11 does not know.
std::string PrintConfig(const CLI::App& app, const LinedConfig& file,
                        const std::vector<std::string>& args,
                        const std::map<std::string, PrintedValue>& special);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_SOURCES_H_
