// Finds the source of each value of ranklogd's configuration. For config.cc only; includes CLI11.

#ifndef SERVICE_DAEMON_CONFIG_CONFIG_SOURCES_H_
#define SERVICE_DAEMON_CONFIG_CONFIG_SOURCES_H_

#include <CLI/CLI.hpp>
#include <istream>
#include <map>
#include <string>
#include <vector>

namespace ranklog::daemon {

// Reads a configuration file: a part of TOML, one KEY = VALUE on each line, without sections and
// arrays. CLI11's reader is not used, because it skips what it does not understand, and keeps the
// first of two equal keys. Throws CLI::ConfigError with ":LINE: why", also for a key that is not a
// setting. Records the line of each key.
class LinedConfig : public CLI::ConfigTOML {
 public:
  // `app` has the settings, and must outlive this object.
  explicit LinedConfig(const CLI::App& app) : app_(app) {}
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
  int LineOf(const std::string& key) const;  // 0: the key is not in the file

 private:
  const CLI::App& app_;
  mutable std::map<std::string, int> lines_;  // mutable because from_config() is const
};

// The options of `app` without those that are not settings (--help).
std::vector<std::string> SettingsOf(const CLI::App& app);

// Gives the option "--NAME" the value of its variable, if neither a flag nor the file sets it.
// CLI11's envname() would keep white space. `app` must be parsed already. Throws
// CLI::ValidationError.
void UseVariable(CLI::App& app, const std::string& name);

// Where the value of an option comes from: "--drain", "FILE:3" or "$VARIABLE". Empty if it is the
// default.
std::string SourceOf(const CLI::App& app, const LinedConfig& file,
                     const std::vector<std::string>& args, const std::string& name);

// One line per setting in the form of a configuration file, each followed by its source:
//   drain = "2m"             # /etc/ranklogd.toml:3
//
// So the output is a valid configuration file. Settings without a value are comments. `effective`
// has the values that CLI11 does not know.
std::string PrintConfig(const CLI::App& app, const LinedConfig& file,
                        const std::vector<std::string>& args,
                        const std::map<std::string, std::string>& effective);

}  // namespace ranklog::daemon

#endif  // SERVICE_DAEMON_CONFIG_CONFIG_SOURCES_H_
