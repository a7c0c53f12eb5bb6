#include "service/daemon/config/config.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "ranklog/v1/places.h"
#include "service/base/empty_flag.h"
#include "service/base/environment.h"
#include "service/base/host_port.h"
#include "service/base/peer_defaults.h"
#include "service/daemon/config/config_errors.h"
#include "service/daemon/config/config_sources.h"
#include "service/daemon/config/config_values.h"
#include "service/storage/directories/state_dirs.h"

namespace ranklog::daemon {
namespace {

constexpr char kForever[] = "forever";  // --keep-for
constexpr char kNever[] = "never";      // --idle-exit

constexpr char kExamples[] = R"(
Examples:
  ranklogd                                       the default places, until SIGTERM
  ranklogd --background                          the same, without a terminal; `ranklog stop` ends it
  ranklogd --state-dir /data/log --listen unix:/run/ranklog/1000/ranklogd.sock
  ranklogd --drain 2m                            after SIGTERM, deliver for up to two minutes
  ranklogd --metrics-port 9464                   metrics for Prometheus: curl 127.0.0.1:9464/metrics
  ranklogd --keep-for 48h --keep-bytes 20GiB     remove delivered runs after 48 h, or above 20 GiB
  ranklogd --config /etc/ranklog/ranklogd.toml   e.g. drain = "2m"
  ranklogd --print-config                        each setting and its source

Exit code: 0 after SIGTERM, SIGINT or --idle-exit, and if --background serves; 1 if it cannot run,
2 for wrong usage.)";

// A rank that starts us passes the state directory of its previous daemon, because its rows are
// there. The directory is ignored if it does not exist here, for example in another container.
std::vector<std::string> StateDirs() {
  std::vector<std::string> dirs = storage::DefaultStateDirs();
  std::string former = EnvironmentVariable("RANKLOG_FORMER_STATE_DIR");
  std::error_code error;
  if (std::filesystem::is_directory(former, error)) dirs.insert(dirs.begin(), std::move(former));
  return dirs;
}

// The values of the options that are not in Config as they are given.
struct Given {
  std::string state_dir;
  std::string address = kUnix + v1::DefaultSocket();
  std::string spool_dir;
  std::string peer_listen = HostPort{.host = "::", .port = DefaultPeerPort()}.Text();
  std::string peer_key;
  std::string peer;
  bool print_config = false;
};

void AddPlaces(CLI::App& app, Given* given) {
  app.add_option("--state-dir", given->state_dir,
                 "state directory, on a local disk [$RANKLOG_STATE_DIR, else the first of "
                 "/var/lib/ranklog/UID if it exists, $XDG_STATE_HOME/ranklog or "
                 "~/.local/state/ranklog, and /var/tmp/ranklog-UID, "
                 "that is on a local disk and not in use by a daemon of another container]")
      ->type_name("DIR")
      ->check(NotEmpty());
  app.add_option("--listen", given->address,
                 "socket for the ranks [$RANKLOG_ADDRESS, else ranklogd.sock in the first usable "
                 "one of /run/ranklog/UID, $XDG_RUNTIME_DIR/ranklog, /dev/shm/ranklog-UID and "
                 "/var/tmp/ranklog-UID]")
      ->type_name("unix:PATH")
      ->check(UnixAddress());
  app.add_option("--spool-dir", given->spool_dir,
                 "additional directory to search for spools of ranks that never connected; "
                 "/run/ranklog/UID, $XDG_RUNTIME_DIR/ranklog, /dev/shm/ranklog-UID and "
                 "/var/tmp/ranklog-UID are always searched [$RANKLOG_SPOOL_DIR]")
      ->type_name("DIR")
      ->check(NotEmpty());
}

void AddLimits(CLI::App& app, Config* config) {
  AddDuration(app, "--drain", &config->drain, {},
              "how long to deliver after SIGTERM; a second SIGTERM stops at once");
  AddDuration(app, "--idle-exit", &config->idle_exit, {.infinite = kNever},
              "exit after this time without ranks or undelivered rows; never: keep running. A "
              "daemon that a rank started exits after 10m");
  AddDuration(app, "--keep-for", &config->keep.keep_for, {.infinite = kForever},
              "how long to keep a fully delivered run after its end; forever: no time limit");
  AddBytes(app, "--keep-bytes", &config->keep.keep_bytes,
           "if the store is larger, remove fully delivered runs at once, oldest first; 0: all of "
           "them; unlimited: no size limit. Undelivered runs are never removed");
  AddBytes(app, "--content-bytes", &config->content_bytes,
           "bytes of large items (above half of a rank's ring) that ranks may leave in "
           "STATE_DIR/content until they are in the store; 0: none, they must fit into a ring; "
           "unlimited: no limit");
}

void AddOutput(CLI::App& app, Config* config, Given* given) {
  app.add_option("--log-level", config->log_level, "lowest level to log")
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  app.add_option_function<int>(
         "--metrics-port", [config](int port) { config->metrics_port = port; },
         "serve Prometheus metrics at http://127.0.0.1:PORT/metrics; 0: any free port, "
         "shown in the log and in `ranklog status`. Default: no metrics")
      ->type_name("PORT")
      ->check(CLI::Range(0, 65535));
  app.add_option("--log-format", config->log_format,
                 "log format: text, or json with one object per line (time, level, pid, message)")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app.add_flag("--background", config->background,
               "run in the background; return once ranks can connect. Logs to ranklogd.log beside "
               "the socket (`ranklog daemon-log`)");
  app.add_flag("--print-config", given->print_config,
               "print each setting and its source (default, file, environment or flag), and exit. "
               "The output is a configuration file")
      ->configurable(false);
}

void AddSamples(CLI::App& app, Config* config) {
  AddDuration(app, "--sample-interval", &config->sample_interval, {.most = absl::Hours(1)},
              "how often the system metrics of a job are sampled; 0: never "
              "[$RANKLOG_SAMPLE_INTERVAL]");
  app.add_option("--sample-disk", config->sample_disks,
                 "directories whose file systems and devices are sampled; default /")
      ->type_name("DIR")
      ->check(NotEmpty());
  app.add_flag("--sample-cores", config->sample_cores, "sample each CPU core, too");
}

void AddPeers(CLI::App& app, Given* given) {
  constexpr char kPeers[] = "Peers";
  app.add_option("--peer-key", given->peer_key,
                 "key file that the daemons of all nodes share, made by `ranklog peer-key`; none: "
                 "do not talk to other nodes [$RANKLOG_PEER_KEY, else "
                 "$XDG_CONFIG_HOME/ranklog/peer.key or ~/.config/ranklog/peer.key, if it exists]")
      ->type_name("FILE")
      ->check(NotEmpty())
      ->check(PresentKeyFile())
      ->group(kPeers);
  app.add_option("--peer-listen", given->peer_listen,
                 "where to listen for the daemons of other nodes if there is a key; none: do not "
                 "listen [$RANKLOG_PEER_LISTEN, else [::]:PORT with PORT = 20000 + UID mod 10000]")
      ->type_name("HOST:PORT")
      ->check(NotEmpty())
      ->check(PeerListenAddress())
      ->group(kPeers);
  app.add_option("--peer", given->peer,
                 "the daemon of rank 0's node, for all jobs; without PORT, that of --peer-listen "
                 "[$RANKLOG_PEER, else what the ranks know from their launcher]")
      ->type_name("HOST[:PORT]")
      ->check(NotEmpty())
      ->check(PeerAddress())
      ->group(kPeers);
}

// Sets the members of `config` from the texts, which the validators accepted.
void SetPeers(const Given& given, Config* config) {
  if (given.peer_listen != kNone) {
    config->peer_listen = ParseHostPort(given.peer_listen, /*default_port=*/0);
  }
  config->peer_key_required = !given.peer_key.empty() && given.peer_key != kNone;
  if (given.peer_key.empty()) config->peer_key_file = DefaultPeerKeyFile();
  if (config->peer_key_required) config->peer_key_file = given.peer_key;
  if (!config->peer_key_file.empty()) config->peer_key_file = Absolute(config->peer_key_file);
  if (given.peer.empty()) return;
  const int port = config->peer_listen ? config->peer_listen->port : DefaultPeerPort();
  config->peer = ParseHostPort(given.peer, port);
}

void AddAdvanced(CLI::App& app, Config* config) {
  constexpr char kAdvanced[] = "Advanced";
  constexpr DurationRange kInterval = {.least = absl::Milliseconds(1)};
  // Rows are durable only after the commit. A minute is more than any use of it.
  AddDuration(app, "--commit-interval", &config->commit_interval,
              {.least = absl::Milliseconds(1), .most = absl::Minutes(1)},
              "how long to collect rows before a commit")
      ->group(kAdvanced);
  app.add_flag("--core-dumps", config->core_dumps,
               "allow core files and debuggers; both expose the API keys of the trackers")
      ->group(kAdvanced);
  AddDuration(app, "--step-wait", &config->step_wait, {},
              "how long a step waits for slow ranks' statistics")
      ->group(kAdvanced);
  AddDuration(app, "--first-row-wait", &config->first_row_wait, {},
              "how long the first steps wait for ranks that have logged nothing yet")
      ->group(kAdvanced);
  AddDuration(app, "--transmit-interval", &config->transmit_interval, kInterval,
              "how often rows are posted to a tracker [$RANKLOG_TRANSMIT_INTERVAL]")
      ->group(kAdvanced);
}

}  // namespace

std::string StartedBy() {
  if (!EnvironmentVariable("INVOCATION_ID").empty() &&
      !EnvironmentVariable("NOTIFY_SOCKET").empty())
    return "systemd";
  if (std::string by = EnvironmentVariable("RANKLOG_STARTED_BY"); !by.empty()) return by;
  if (!EnvironmentVariable("SLURM_SCRIPT_CONTEXT").empty()) return "slurm";
  return "user";
}

Parsed ParseConfig(int argc, const char* const* argv) {
  Parsed parsed;
  Config& config = parsed.config;
  if (StartedBy() == kRank) config.idle_exit = absl::Minutes(10);
  Given given;

  CLI::App app(
      "Stores the experiment log of this node's training jobs and delivers it.\n"
      "Runs in the foreground and logs to stderr, unless --background is given.",
      "ranklogd");
  app.footer(kExamples);
  app.set_version_flag("--version", "ranklogd " RANKLOG_VERSION);
  const auto file = std::make_shared<LinedConfig>(app);
  app.config_formatter(file);
  app.set_config("--config", "", "configuration file with these options, in TOML",
                 /*config_required=*/false)
      ->type_name("FILE")
      ->check(NotEmpty())
      ->check(OwnFile());
  app.allow_config_extras(CLI::config_extras_mode::error);
  AddPlaces(app, &given);
  AddLimits(app, &config);
  AddSamples(app, &config);
  AddOutput(app, &config, &given);
  AddPeers(app, &given);
  AddAdvanced(app, &config);

  try {
    if (const std::string flag = EmptyFlag({argv + 1, argv + argc}); !flag.empty()) {
      throw CLI::ValidationError(flag, kEmptyValue);
    }
    app.parse(argc, argv);
    // StateDirs() reads the variable of --state-dir.
    for (const char* name : {"listen", "spool-dir", "transmit-interval", "sample-interval",
                             "peer-listen", "peer-key"}) {
      UseVariable(app, name);
    }
    // A rank's variable is for its own job, and the rank sends it. This daemon may serve others.
    if (StartedBy() != kRank) UseVariable(app, "peer");
  } catch (const CLI::ParseError& error) {
    return TextOf(app, *file, {argv + 1, argv + argc}, error);
  }
  parsed.run = !given.print_config;
  config.state_dirs =
      given.state_dir.empty() ? StateDirs() : std::vector<std::string>{given.state_dir};
  for (std::string& dir : config.state_dirs) dir = Absolute(dir);
  config.socket_path = Absolute(given.address.substr(sizeof(kUnix) - 1));
  // Ranks that find no space in the given directory fall back to the standard ones.
  if (!given.spool_dir.empty())
    config.spool_dirs.push_back(v1::WithoutSlashAtEnd(Absolute(given.spool_dir)));
  for (const v1::PrivateDir& dir : v1::StandardDirs()) config.spool_dirs.push_back(dir.path);
  SetPeers(given, &config);
  if (given.print_config) {
    parsed.text = PrintConfig(app, *file, {argv + 1, argv + argc},
                              {{"state-dir", config.state_dirs.front()},
                               {"listen", kUnix + config.socket_path},
                               {"spool-dir", given.spool_dir},
                               {"peer-key", given.peer_key},
                               {"peer-listen", given.peer_listen},
                               {"peer", given.peer}});
  }
  return parsed;
}

}  // namespace ranklog::daemon
