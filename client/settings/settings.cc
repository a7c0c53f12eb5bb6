#include "ranklog/settings.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/settings/environment.h"
#include "client/settings/rank_statistics.h"
#include "client/settings/strategy_name.h"

namespace ranklog {
namespace {

using internal::FirstVariable;
using internal::ParseInteger;
using internal::SplitList;
using internal::Variable;

void Read(std::string* setting, const char* name) {
  if (auto value = Variable(name)) *setting = *std::move(value);
}

void Read(std::string* setting, const char* name, const char* wandb_name) {
  if (auto value = FirstVariable({name, wandb_name})) *setting = *std::move(value);
}

void ReadMillis(std::chrono::milliseconds* setting, const char* name, Settings* settings) {
  const auto text = Variable(name);
  if (!text) return;
  if (const auto value = ParseInteger(*text)) {
    *setting = std::chrono::milliseconds(*value);
  } else {
    settings->environment_errors.push_back(
        absl::StrCat(name, "=", *text, " is not a whole number of milliseconds"));
  }
}

// A whole number and its unit: 500ms, 90s, 10m, 1h.
std::optional<std::chrono::milliseconds> ParseTime(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string_view::npos || digits > 9) return std::nullopt;  // no overflow
  const auto number = ParseInteger(text.substr(0, digits));
  if (!number) return std::nullopt;
  constexpr std::pair<std::string_view, int64_t> kUnits[] = {
      {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 60 * 60 * 1000}};
  for (const auto& [unit, millis] : kUnits) {
    if (text.substr(digits) == unit) return std::chrono::milliseconds(*number * millis);
  }
  return std::nullopt;
}

void ReadFinish(Settings* settings) {
  const auto text = Variable("RANKLOG_FINISH");
  if (!text || *text == "durable") return;
  constexpr std::string_view kDelivered = "delivered";
  const std::string_view value = *text;
  if (value.substr(0, kDelivered.size()) == kDelivered) {
    settings->delivery_timeout = Settings::kDeliveryTimeout;
    if (value == kDelivered) return;
    if (value[kDelivered.size()] == ':') {
      const auto timeout = ParseTime(value.substr(kDelivered.size() + 1));
      if (timeout) settings->delivery_timeout = *timeout;
      if (timeout) return;
    }
  }
  settings->environment_errors.push_back(
      absl::StrCat("RANKLOG_FINISH=", *text,
                   " is unknown; use durable, delivered or delivered:TIME, with a time such as "
                   "90s, 10m or 1h"));
}

void ReadFlag(bool* setting, const char* name, Settings* settings) {
  const auto text = Variable(name);
  if (!text) return;
  const std::string lower = absl::AsciiStrToLower(*text);
  const auto is_one_of = [&](std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), lower) != words.end();
  };
  if (is_one_of({"1", "true", "t", "yes", "y", "on"})) {
    *setting = true;
  } else if (is_one_of({"0", "false", "f", "no", "n", "off"})) {
    *setting = false;
  } else {
    settings->environment_errors.push_back(
        absl::StrCat(name, "=", *text, " is unknown; use 1 or 0"));
  }
}

void ReadStrategy(Settings* settings) {
  const auto text = Variable("RANKLOG_LOG_STRATEGY");
  if (!text) return;
  for (const LogStrategy strategy : {LogStrategy::kMain, LogStrategy::kNode, LogStrategy::kAll}) {
    if (*text != internal::Name(strategy)) continue;
    settings->log_strategy = strategy;
    return;
  }
  settings->environment_errors.push_back(
      absl::StrCat("RANKLOG_LOG_STRATEGY=", *text, " is unknown; use main, node or all"));
}

void ReadDestinations(Settings* settings) {
  const auto mode = Variable("WANDB_MODE");
  if (mode == "offline" || mode == "dryrun") {
    settings->destinations = {"local"};
  } else if (mode == "disabled") {
    settings->disabled = true;
  } else if (mode && mode != "online" && mode != "run" && mode != "shared") {
    // Whatever the user meant, the rows are kept, and nothing leaves the node unasked.
    settings->destinations = {"local"};
    settings->environment_errors.push_back(
        absl::StrCat("WANDB_MODE=", *mode,
                     " is unknown; use online, offline or disabled; the rows stay on this node "
                     "until `ranklog sync`"));
  }
  if (const auto list = Variable("RANKLOG_DESTINATIONS")) settings->destinations = SplitList(*list);
  Read(&settings->base_url, "WANDB_BASE_URL");
  if (auto key = Variable("WANDB_API_KEY")) settings->credentials["WANDB_API_KEY"] = *key;
}

void ReadSpool(Settings* settings) {
  Read(&settings->address, "RANKLOG_ADDRESS");
  Read(&settings->state_dir, "RANKLOG_STATE_DIR");
  Read(&settings->spool_dir, "RANKLOG_SPOOL_DIR");
  Read(&settings->daemon, "RANKLOG_DAEMON");
  if (const auto text = Variable("RANKLOG_SPOOL_BYTES")) {
    const auto bytes = ParseInteger(*text);
    if (bytes && *bytes >= 0) {
      settings->spool_bytes = static_cast<size_t>(*bytes);
    } else {
      settings->environment_errors.push_back(
          absl::StrCat("RANKLOG_SPOOL_BYTES=", *text, " is not a number of bytes"));
    }
  }
  ReadMillis(&settings->flush_interval, "RANKLOG_FLUSH_INTERVAL_MS", settings);
  ReadMillis(&settings->finish_timeout, "RANKLOG_FINISH_TIMEOUT_MS", settings);
  ReadFinish(settings);
  ReadFlag(&settings->start_daemon, "RANKLOG_START_DAEMON", settings);
}

// Removes the key from error messages, in case it was also set in a wrong variable. Values shorter
// than any key are not replaced, because that would only garble the messages.
void MaskKey(Settings* settings) {
  constexpr size_t kShortestKey = 40;  // W&B's first keys; later ones are longer
  for (const auto& [name, key] : settings->credentials) {
    if (key.size() < kShortestKey) continue;
    for (std::string& error : settings->environment_errors) {
      absl::StrReplaceAll({{key, absl::StrCat("[", name, "]")}}, &error);
    }
  }
}

}  // namespace

Settings Settings::FromEnvironment() {
  Settings settings;
  Read(&settings.project, "RANKLOG_PROJECT", "WANDB_PROJECT");
  Read(&settings.entity, "RANKLOG_ENTITY", "WANDB_ENTITY");
  Read(&settings.run_id, "RANKLOG_RUN_ID", "WANDB_RUN_ID");
  Read(&settings.name, "RANKLOG_NAME", "WANDB_NAME");
  Read(&settings.group, "RANKLOG_RUN_GROUP", "WANDB_RUN_GROUP");
  Read(&settings.job_type, "RANKLOG_JOB_TYPE", "WANDB_JOB_TYPE");
  Read(&settings.notes, "RANKLOG_NOTES", "WANDB_NOTES");
  Read(&settings.resume, "RANKLOG_RESUME", "WANDB_RESUME");
  Read(&settings.program, "RANKLOG_PROGRAM", "WANDB_PROGRAM");
  Read(&settings.host, "RANKLOG_HOST", "WANDB_HOST");
  Read(&settings.node, "SLURMD_NODENAME");
  Read(&settings.node, "RANKLOG_NODE");
  if (const auto tags = FirstVariable({"RANKLOG_TAGS", "WANDB_TAGS"})) {
    settings.tags = SplitList(*tags);
  }
  if (const auto list = Variable("RANKLOG_RANK_STATISTICS")) {
    settings.rank_statistics = internal::SplitRankStatistics(*list);
  }
  ReadStrategy(&settings);
  ReadDestinations(&settings);
  ReadSpool(&settings);
  ReadFlag(&settings.quiet, "RANKLOG_QUIET", &settings);
  internal::ReadRanks(&settings);
  MaskKey(&settings);
  return settings;
}

}  // namespace ranklog
