#ifndef RANKLOG_SETTINGS_H_
#define RANKLOG_SETTINGS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ranklog/c.h"
#include "ranklog/compiler.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// Which runs the tracker shows for a job of many ranks.
enum class LogStrategy {
  kMain,  // one run: rank 0's rows, with statistics over the ranks
  kNode,  // one run per node: its first rank's rows, with statistics over the node's ranks
  kAll,   // one run per rank
};

// How serious a message is.
enum class Severity {
  kInfo,
  kWarning,  // rows wait, or something was refused
  kError,    // the user must act
};

// Describes the run, the place of this process in its job, and how rows leave the process.
//
// Precedence: values set by the program > RANKLOG_* > WANDB_* > the launcher's variables. If an
// optional is still unset after FromEnvironment(), Init() chooses the value.
struct Settings {
  // Reads the environment of this process. Never fails: Validate() reports what cannot be parsed.
  static Settings FromEnvironment();

  // A run id for an experiment: the SHA-1 of "{save_dir}/{experiment}" as 40 hexadecimal digits. Each
  // start with the same two texts gets the same id, so with `resume` it continues the run. Both are
  // used as they are: write the directory in the same way each time. Empty without memory.
  static std::string RunIdFor(std::string_view save_dir, std::string_view experiment);

  // All mistakes in these settings, one sentence each, with what to do or what Init() uses instead.
  // Empty if there are none. Init() prints them in the terminal, and keeps the rows.
  std::vector<std::string> Validate() const;

  // ---- The run ----
  std::string project;  // RANKLOG_PROJECT, WANDB_PROJECT; else "uncategorized"
  std::string entity;   // RANKLOG_ENTITY, WANDB_ENTITY; empty: the server's default
  // RANKLOG_RUN_ID, WANDB_RUN_ID; else derived from the launcher, so that all ranks of a job agree;
  // else random. [A-Za-z0-9_.-], 1 to 128 characters
  std::string run_id;
  std::string name;  // RANKLOG_NAME, WANDB_NAME
  // RANKLOG_HANDLE: what Run::Handle() returned in another process. If set, Init() joins that run, as
  // Attach() does
  std::string handle;
  // RANKLOG_RUN_GROUP, WANDB_RUN_GROUP; else slurm-ARRAYJOB in a Slurm job array; else the run id
  std::string group;
  std::string job_type;           // RANKLOG_JOB_TYPE, WANDB_JOB_TYPE
  std::string notes;              // RANKLOG_NOTES, WANDB_NOTES
  std::vector<std::string> tags;  // RANKLOG_TAGS, WANDB_TAGS: comma-separated
  std::string resume;             // RANKLOG_RESUME, WANDB_RESUME: allow, must, never, auto
  std::string program;            // RANKLOG_PROGRAM, WANDB_PROGRAM; else the executable's path
  std::string host;               // RANKLOG_HOST, WANDB_HOST; else the host name
  LogStrategy log_strategy = LogStrategy::kMain;  // RANKLOG_LOG_STRATEGY: main, node, all
  // RANKLOG_RUN_NAME_PATTERN, such as global_rank_{rank}: the names of the runs of kNode and kAll.
  // Default: rank-{rank}. See settings.md for the words in braces
  std::string run_name_pattern;
  // RANKLOG_RANK_STATISTICS, such as train/loss=mean,max;perf/*=max,argmax;*=none. Each item is a
  // rule "GLOB=mean,max", or one statistic for the metrics that match no rule. The statistics are
  // mean, min, max, std, argmin, argmax and none. The first rule that matches a metric counts.
  // Default: mean, min, max. A metric has statistics only once its values have differed between
  // ranks
  std::vector<std::string> rank_statistics;

  // ---- Where it goes ----
  // RANKLOG_DESTINATIONS: wandb, mlflow, clickhouse, offline, local; empty: wandb if there are
  // credentials, else mlflow if MLFLOW_TRACKING_URI is set, else local.
  // WANDB_MODE=offline: offline; disabled: see `disabled`. The daemon knows the trackers; it reports
  // a name that it does not know
  std::vector<std::string> destinations;
  // The settings of destinations, such as destination_settings["wandb"]["base_url"]. The daemon
  // checks them and reports unknown ones. FromEnvironment() adds variables of the destinations in
  // RANKLOG_DESTINATIONS, of wandb and of mlflow, such as destination_settings["wandb"]["WANDB_BASE_URL"];
  // Init() those of others that `destinations` names; settings.md tells which. A setting of the
  // program counts first. One that is named like a secret, such as "api_key", is sent as a
  // credential
  std::map<std::string, std::map<std::string, std::string>> destination_settings;
  // Secrets and users of the destinations, by variable, such as WANDB_API_KEY; sent at attach,
  // never stored
  std::map<std::string, std::string> credentials;
  // WANDB_MODE=disabled or WANDB_DISABLED=true: Log() does nothing and returns true
  bool disabled = false;

  // ---- This process in its job ----
  // All values come from the first launcher of this list whose variables set a rank or a world
  // size:
  //   RANKLOG_RANK and so on
  //   torchrun: RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK
  //   Slurm:    SLURM_PROCID SLURM_LOCALID SLURM_STEP_NUM_TASKS SLURM_NODEID, only if
  //             SLURM_STEP_ID is set (a batch script has the others too, but is not a rank)
  //   Open MPI: OMPI_COMM_WORLD_*
  //   PMI:      PMI_RANK PMI_SIZE
  std::optional<int> rank;        // 0 .. world_size-1; default 0
  std::optional<int> local_rank;  // default: rank on one node, else 0
  std::optional<int> world_size;  // default 1
  std::optional<int> local_world_size;
  std::optional<int> node_rank;  // default rank / local_world_size
  std::string node;              // RANKLOG_NODE, SLURMD_NODENAME; else the host name

  // ---- How it leaves this process ----
  // RANKLOG_ADDRESS: unix:PATH, with a path of at most 107 bytes. Empty: ranklogd.sock in the first
  // of these directories that belongs to this user: /run/ranklog/UID, $XDG_RUNTIME_DIR/ranklog,
  // /dev/shm/ranklog-UID, /var/tmp/ranklog-UID
  std::string address;
  // A relative path of these two is from the working directory at Init().
  std::string state_dir;  // RANKLOG_STATE_DIR: used only by a daemon that this process starts
  std::string spool_dir;  // RANKLOG_SPOOL_DIR: tried before the directories above
  // RANKLOG_SPOOL_BYTES: ring size of the first thread that logs; 64 KiB to 64 MiB, rounded up to
  // pages. A row takes at most half of its ring. Other threads start with a sixteenth of this size,
  // but at least 512 KiB. At the first row that does not fit, they get the full size.
  size_t spool_bytes = 8 << 20;
  // RANKLOG_FLUSH_INTERVAL_MS: 1 to 60000. 1 s costs a third of the CPU time of 100 ms.
  std::chrono::milliseconds flush_interval{100};
  std::chrono::milliseconds finish_timeout{10000};  // RANKLOG_FINISH_TIMEOUT_MS: 0 to 3600000
  // RANKLOG_FINISH=delivered[:TIMEOUT], such as delivered:10m. If not 0, the end of the run
  // (Finish(), the destructor, exit()) also waits until the tracker has the whole run. It waits at
  // most this long; the limit is 24 h. Use it in a container, because the daemon ends with the
  // container. 0, or RANKLOG_FINISH=durable: no such wait.
  std::chrono::milliseconds delivery_timeout{0};
  // The timeout of RANKLOG_FINISH=delivered. If delivery worked during the run, at most 15 s of
  // rows remain. Five minutes are enough for a tracker to restart, and a longer wait would waste
  // GPU time.
  static constexpr std::chrono::milliseconds kDeliveryTimeout{300000};
  bool start_daemon = true;  // RANKLOG_START_DAEMON: start `daemon` detached when none answers
  // RANKLOG_DAEMON: path of ranklogd. Empty: beside the program, beside this library, in ../bin of
  // this library's directory, then in PATH
  std::string daemon;

  // ---- Facts that are recorded unasked ----
  // RANKLOG_METADATA: the command, the source's commit, the host, the libraries and similar facts,
  // which trackers show beside the run. WANDB__DISABLE_META and WANDB__DISABLE_MACHINE_INFO switch
  // this off, too
  bool metadata = true;
  // RANKLOG_SYSTEM_METRICS: the daemon samples the node's hardware for the run.
  // WANDB__DISABLE_STATS and WANDB__DISABLE_MACHINE_INFO switch this off, too
  bool system_metrics = true;

  // ---- Messages for the user ----
  // The library prints one line at the start of the run, with its destination, and one at its end.
  // It also prints a line when a problem begins, and when it is over. Rank 0 reports the run; the
  // first rank of each node reports problems. A forked child is silent.
  bool quiet = false;  // RANKLOG_QUIET, WANDB_SILENT: no messages
  // Receives each line instead of stderr, without the prefix "ranklog: ". Called on the library's
  // background thread, which sends nothing until the call returns. It may call Log() and stats(),
  // but no other function of a run. Exceptions that it throws are dropped.
  std::function<void(Severity severity, const std::string& text)> on_message;

  // Errors of FromEnvironment(), for Validate().
  std::vector<std::string> environment_errors;
};

// What follows is not part of the documentation.
namespace header {

// Calls visit(name, settings.member...) for each setting that has a value in ranklog_settings. This
// is the only list of them; a test compares it to the struct. on_message is not one.
template <typename Visit, typename... S>
void VisitSettings(Visit&& visit, S&... settings) {
  visit("project", settings.project...);
  visit("entity", settings.entity...);
  visit("run_id", settings.run_id...);
  visit("name", settings.name...);
  visit("handle", settings.handle...);
  visit("group", settings.group...);
  visit("job_type", settings.job_type...);
  visit("notes", settings.notes...);
  visit("tags", settings.tags...);
  visit("resume", settings.resume...);
  visit("program", settings.program...);
  visit("host", settings.host...);
  visit("log_strategy", settings.log_strategy...);
  visit("run_name_pattern", settings.run_name_pattern...);
  visit("rank_statistics", settings.rank_statistics...);
  visit("destinations", settings.destinations...);
  visit("destination_settings", settings.destination_settings...);
  visit("credentials", settings.credentials...);
  visit("disabled", settings.disabled...);
  visit("rank", settings.rank...);
  visit("local_rank", settings.local_rank...);
  visit("world_size", settings.world_size...);
  visit("local_world_size", settings.local_world_size...);
  visit("node_rank", settings.node_rank...);
  visit("node", settings.node...);
  visit("address", settings.address...);
  visit("state_dir", settings.state_dir...);
  visit("spool_dir", settings.spool_dir...);
  visit("spool_bytes", settings.spool_bytes...);
  visit("flush_interval", settings.flush_interval...);
  visit("finish_timeout", settings.finish_timeout...);
  visit("delivery_timeout", settings.delivery_timeout...);
  visit("start_daemon", settings.start_daemon...);
  visit("daemon", settings.daemon...);
  visit("metadata", settings.metadata...);
  visit("system_metrics", settings.system_metrics...);
  visit("quiet", settings.quiet...);
  visit("environment_errors", settings.environment_errors...);
}

// Reads a whole decimal number of the type T. False: `text` is not one.
template <typename T>
bool ReadInteger(std::string_view text, T* to) {
  const bool negative = std::is_signed_v<T> && !text.empty() && text[0] == '-';
  if (negative) text.remove_prefix(1);
  if (text.empty()) return false;
  T number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    const T digit = static_cast<T>(c - '0');
    // The smallest number has no positive counterpart.
    if (negative ? number < (std::numeric_limits<T>::min() + digit) / 10
                 : number > (std::numeric_limits<T>::max() - digit) / 10) {
      return false;
    }
    number = static_cast<T>(number * 10 + (negative ? -digit : digit));
  }
  *to = number;
  return true;
}

// Sets one setting from its text, as ranklog_settings_set() describes it. Used by the header and by
// the library, each for its own std::string.
class SettingReader {
 public:
  // `value` may be null, to reset the setting.
  SettingReader(std::string_view name, const char* value, size_t bytes)
      : name_(name),
        is_null_(value == nullptr),
        text_(is_null_ ? "" : value, is_null_ ? 0 : bytes) {}

  // False: unknown name or unreadable value.
  bool Read(Settings* settings) {
    const Settings defaults;
    VisitSettings(*this, *settings, defaults);
    return is_read_;
  }

  template <typename T>
  void operator()(std::string_view name, T& member, const T& otherwise) {
    if (name != name_) return;
    if (is_null_) member = otherwise;
    is_read_ = is_null_ || Set(&member);
  }
  // destination_settings.DESTINATION.NAME, credentials.NAME
  template <typename T>
  void operator()(std::string_view name, std::map<std::string, T>& member,
                  const std::map<std::string, T>&) {
    if (name_.substr(0, name.size()) != name) return;
    if (name_.size() > name.size() && name_[name.size()] == '.') {
      is_read_ = Set(name_.substr(name.size() + 1), &member);
    } else if (name_ == name && is_null_) {
      member.clear();
      is_read_ = true;
    }
  }

 private:
  bool Set(std::string* to) const {
    to->assign(text_.data(), text_.size());
    return true;
  }
  bool Set(std::vector<std::string>* to) const {
    to->emplace_back(text_);
    return true;
  }
  bool Set(bool* to) const {
    *to = text_ == "true";
    return *to || text_ == "false";
  }
  bool Set(size_t* to) const { return ReadInteger(text_, to); }
  bool Set(std::optional<int>* to) const {
    int number = 0;
    if (!ReadInteger(text_, &number)) return false;
    *to = number;
    return true;
  }
  bool Set(std::chrono::milliseconds* to) const {
    int64_t number = 0;
    if (!ReadInteger(text_, &number)) return false;
    *to = std::chrono::milliseconds(number);
    return true;
  }
  bool Set(LogStrategy* to) const {
    int number = 0;
    if (text_ == "main") {
      *to = LogStrategy::kMain;
    } else if (text_ == "node") {
      *to = LogStrategy::kNode;
    } else if (text_ == "all") {
      *to = LogStrategy::kAll;
    } else if (ReadInteger(text_, &number)) {  // for Validate(): a program may cast any number
      *to = static_cast<LogStrategy>(number);
    } else {
      return false;
    }
    return true;
  }
  bool Set(std::string_view key, std::map<std::string, std::string>* to) const {
    if (is_null_) {
      to->erase(std::string(key));
    } else {
      (*to)[std::string(key)] = std::string(text_);
    }
    return true;
  }
  bool Set(std::string_view keys,
           std::map<std::string, std::map<std::string, std::string>>* to) const {
    const size_t dot = keys.find('.');
    if (dot == std::string_view::npos) return false;
    return Set(keys.substr(dot + 1), &(*to)[std::string(keys.substr(0, dot))]);
  }

  const std::string_view name_;
  const bool is_null_;
  const std::string_view text_;
  bool is_read_ = false;
};

// Calls each(const std::string& name, std::string_view value) for each setting with a value, in the
// form that SettingReader takes.
template <typename Each>
class SettingWriter {
 public:
  explicit SettingWriter(Each each) : each_(std::move(each)) {}

  void operator()(const std::string& name, const std::string& text) const {
    if (!text.empty()) each_(name, text);
  }
  void operator()(const std::string& name, const std::vector<std::string>& list) const {
    for (const std::string& item : list) each_(name, item);
  }
  template <typename T, std::enable_if_t<std::is_same_v<T, bool>, int> = 0>
  void operator()(const std::string& name, T flag) const {
    each_(name, flag ? "true" : "false");
  }
  void operator()(const std::string& name, size_t number) const {
    each_(name, std::to_string(number));
  }
  void operator()(const std::string& name, const std::optional<int>& number) const {
    if (number) each_(name, std::to_string(*number));
  }
  void operator()(const std::string& name, std::chrono::milliseconds time) const {
    each_(name, std::to_string(time.count()));
  }
  void operator()(const std::string& name, LogStrategy strategy) const {
    constexpr const char* kNames[] = {"main", "node", "all"};
    const auto number = static_cast<int>(strategy);
    each_(name, number >= 0 && number < 3 ? kNames[number] : std::to_string(number));
  }
  void operator()(const std::string& name, const std::map<std::string, std::string>& map) const {
    for (const auto& [key, value] : map) each_(name + "." + Part(key, '\0', '\xff'), value);
  }
  void operator()(const std::string& name,
                  const std::map<std::string, std::map<std::string, std::string>>& map) const {
    for (const auto& [key, members] : map) {
      (*this)(name + "." + Part(Part(key, '.', '/'), '\0', '/'), members);
    }
  }

 private:
  // A key in a name. Validate() rejects keys with `from` and keys with `to` in the same way, and a
  // name cannot have `from` there.
  static std::string Part(std::string key, char from, char to) {
    for (char& c : key) {
      if (c == from) c = to;
    }
    return key;
  }

  Each each_;
};

template <typename Each>
void ForEachSetting(const Settings& settings, Each each) {
  VisitSettings(SettingWriter<Each>(std::move(each)), settings);
}

struct FreeSettings {
  void operator()(ranklog_settings* settings) const noexcept { ranklog_settings_free(settings); }
};
using SettingsHandle = std::unique_ptr<ranklog_settings, FreeSettings>;

// What a callback of the library does for the program: it must not throw. In place of that, it
// remembers that memory was short.
template <typename Result>
struct Collected {
  Result result;
  bool is_complete = true;

  template <typename Add>
  void Try(const Add& add) noexcept {
    RANKLOG_TRY { add(); }
    RANKLOG_CATCH_ALL { is_complete = false; }
  }
  Result Take() && {
#ifdef __cpp_exceptions
    if (!is_complete) throw std::bad_alloc();
#endif
    return std::move(result);
  }
};

// The settings of the library as the header's struct. Without on_message.
inline Settings FromC(const ranklog_settings* from) {
  Collected<Settings> settings;
  ranklog_settings_each(
      from,
      [](void* user, const char* name, const char* value, size_t bytes) {
        auto* const to = static_cast<Collected<Settings>*>(user);
        to->Try([&] { SettingReader(name, value, bytes).Read(&to->result); });
      },
      &settings);
  return std::move(settings).Take();
}

inline void OnMessage(void* user, int severity, const char* text, size_t bytes) {
  RANKLOG_TRY {
    (*static_cast<decltype(Settings::on_message)*>(user))(static_cast<Severity>(severity),
                                                          std::string(text, bytes));
  }
  RANKLOG_CATCH_ALL {}  // nobody on the library's thread can handle it
}

// The library's copy of `settings`. Null without memory. A library that is older than this header
// reports a setting that it does not know.
inline SettingsHandle ToC(const Settings& settings) {
  SettingsHandle to(ranklog_settings_new());
  bool is_complete = to != nullptr;
  ForEachSetting(settings, [&](const std::string& name, std::string_view value) {
    const char* const text = value.data() == nullptr ? "" : value.data();
    if (ranklog_settings_set(to.get(), name.c_str(), text, value.size())) return;
    const std::string error = "libranklog.so is older than the program, and ignores " + name;
    is_complete = is_complete &&
                  ranklog_settings_set(to.get(), "environment_errors", error.data(), error.size());
  });
  if (is_complete && settings.on_message) {
    using Callback = decltype(Settings::on_message);
    is_complete =
        ranklog_settings_on_message(to.get(), OnMessage, new Callback(settings.on_message),
                                    [](void* user) { delete static_cast<Callback*>(user); });
  }
  if (!is_complete) to.reset();
  return to;
}

}  // namespace header

inline Settings Settings::FromEnvironment() {
  return header::FromC(header::SettingsHandle(ranklog_settings_from_environment()).get());
}

inline std::string Settings::RunIdFor(std::string_view save_dir, std::string_view experiment) {
  char id[41];
  const size_t bytes = ranklog_run_id_for(save_dir.data(), save_dir.size(), experiment.data(),
                                          experiment.size(), id, sizeof id);
  return std::string(id, bytes < sizeof id ? bytes : 0);
}

inline std::vector<std::string> Settings::Validate() const {
  header::Collected<std::vector<std::string>> errors;
  const header::SettingsHandle settings = header::ToC(*this);
  if (settings == nullptr) errors.is_complete = false;
  ranklog_settings_validate(
      settings.get(),
      [](void* user, const char* text, size_t bytes) {
        auto* const to = static_cast<decltype(errors)*>(user);
        to->Try([&] { to->result.emplace_back(text, bytes); });
      },
      &errors);
  return std::move(errors).Take();
}

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_SETTINGS_H_
