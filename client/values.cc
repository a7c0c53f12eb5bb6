#include "client/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>

#include "client/base/text/fields.h"
#include "client/base/text/keys.h"

namespace ranklog::internal {
namespace {

absl::Status ConvertObject(std::span<const ranklog_field> fields, int depth, v1::Object* object);

absl::Status Convert(const ranklog_field& value, int depth, v1::Value* out) {
  if (depth > kMaxValueDepth) {
    return absl::InvalidArgumentError("a value has more than " + std::to_string(kMaxValueDepth) +
                                      " levels of lists and objects");
  }
  switch (value.kind) {
    case RANKLOG_NUMBER:
      out->set_number(value.number);
      break;
    case RANKLOG_TEXT:
      if (!IsUtf8(FieldText(value))) return absl::InvalidArgumentError("a text is not UTF-8");
      out->set_text(std::string(FieldText(value)));
      break;
    case RANKLOG_FLAG:
      out->set_flag(value.flag);
      break;
    case RANKLOG_SIGNED:
      out->set_integer(value.signed_integer);
      break;
    case RANKLOG_UNSIGNED:
      if (value.unsigned_integer <= uint64_t{INT64_MAX}) {
        out->set_integer(static_cast<int64_t>(value.unsigned_integer));
      } else {
        out->set_unsigned_integer(value.unsigned_integer);
      }
      break;
    case RANKLOG_NULL:
      break;
    case RANKLOG_LIST: {
      v1::List* const list = out->mutable_list();
      for (const ranklog_field& item : ItemsOf(value)) {
        absl::Status status = Convert(item, depth + 1, list->add_values());
        if (!status.ok()) return status;
      }
      break;
    }
    case RANKLOG_OBJECT:
      return ConvertObject(ItemsOf(value), depth + 1, out->mutable_object());
    default:
      return absl::InvalidArgumentError("a value has the unknown kind " +
                                        std::to_string(value.kind));
  }
  return absl::OkStatus();
}

absl::Status ConvertObject(std::span<const ranklog_field> fields, int depth, v1::Object* object) {
  for (const ranklog_field* from : LastOfEachKey(fields)) {
    if (!IsUtf8(KeyOf(*from))) return absl::InvalidArgumentError("a key is not UTF-8");
    v1::Field* field = object->add_fields();
    field->set_key(std::string(KeyOf(*from)));
    absl::Status status = Convert(*from, depth, field->mutable_value());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

template <size_t n>
bool Contains(const std::array<std::string_view, n>& list, std::string_view item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

constexpr std::array<std::string_view, 6> kSummaries = {"min",  "max",   "mean",
                                                        "last", "first", "best"};
constexpr std::array<std::string_view, 3> kAlertLevels = {"INFO", "WARN", "ERROR"};
constexpr ptrdiff_t kMaxTitle = 64;  // characters; W&B's limit

// Of valid UTF-8.
ptrdiff_t Characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; });
}

v1::Value* AddField(const char* key, v1::Object* object) {
  v1::Field* const field = object->add_fields();
  field->set_key(key);
  return field->mutable_value();
}

}  // namespace

absl::Status ToProto(std::span<const ranklog_field> fields, v1::Object* object) {
  return ConvertObject(fields, 1, object);
}

absl::Status ToProto(std::string_view name, const MetricOptions& options,
                     v1::MetricDefinition* definition) {
  std::string error = KeyError(name);
  if (error.empty() && !options.step_metric.empty()) error = KeyError(options.step_metric);
  // The only reserved key that can be an axis.
  if (options.step_metric == "_step") error.clear();
  for (const std::string& item : options.summary) {
    if (item != "none" && !Contains(kSummaries, item)) {
      error = "summary must be min, max, mean, last, first, best or none";
    }
  }
  if (!options.goal.empty() && options.goal != "minimize" && options.goal != "maximize") {
    error = "goal must be minimize or maximize";
  }
  if (!error.empty()) return absl::InvalidArgumentError("DefineMetric: " + error);
  definition->set_name(name.data(), name.size());
  definition->set_step_metric(options.step_metric);
  definition->set_step_sync(options.step_sync);
  definition->set_hidden(options.hidden);
  for (const std::string& item : options.summary) definition->add_summary(item);
  definition->set_goal(options.goal);
  return absl::OkStatus();
}

namespace {

std::string_view TextOrEmpty(const char* text) { return text == nullptr ? "" : text; }

absl::Status AddText(v1::Object* object, const char* key, std::string_view text) {
  if (!IsUtf8(text)) return absl::InvalidArgumentError(std::string(key) + " is not UTF-8");
  if (!text.empty()) AddField(key, object)->set_text(std::string(text));
  return absl::OkStatus();
}

// The official client refuses such metadata, too: no JSON can have it.
bool HasNonFinite(const v1::Value& value) {
  if (value.has_number() && !std::isfinite(value.number())) return true;
  for (const v1::Value& item : value.list().values()) {
    if (HasNonFinite(item)) return true;
  }
  for (const v1::Field& field : value.object().fields()) {
    if (HasNonFinite(field.value())) return true;
  }
  return false;
}

absl::Status AddTexts(v1::Object* object, const char* key, const char* const* texts, size_t count) {
  if (count == 0) return absl::OkStatus();
  v1::List* const list = AddField(key, object)->mutable_list();
  for (size_t i = 0; i < count; ++i) {
    const std::string_view text = TextOrEmpty(texts[i]);
    if (text.empty() || !IsUtf8(text)) {
      return absl::InvalidArgumentError(std::string("an empty text, or not UTF-8, in ") + key);
    }
    list->add_values()->set_text(std::string(text));
  }
  return absl::OkStatus();
}

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
         c == '_' || c == '-';
}

}  // namespace

absl::Status ToProto(const ranklog_artifact& artifact, v1::Object* object) {
  if ((artifact.path_count > 0 && artifact.paths == nullptr) ||
      (artifact.reference_count > 0 && artifact.references == nullptr) ||
      (artifact.alias_count > 0 && artifact.aliases == nullptr) ||
      (artifact.tag_count > 0 && artifact.tags == nullptr) ||
      (artifact.metadata_count > 0 && artifact.metadata == nullptr)) {
    return absl::InvalidArgumentError("an artifact has a null list with a count above 0");
  }
  // W&B's rules, so that nothing is refused there after the training.
  const std::string_view name = TextOrEmpty(artifact.name), type = TextOrEmpty(artifact.type);
  if (name.empty() || name.size() > 128 ||
      !std::all_of(name.begin(), name.end(), IsNameCharacter)) {
    return absl::InvalidArgumentError(
        "an artifact's name must have 1 to 128 letters, digits, dots, "
        "dashes and underscores");
  }
  if (type.empty() || type.size() > 128 || type.find_first_of("/:") != std::string_view::npos ||
      type == "job" || type.substr(0, 6) == "wandb-") {
    return absl::InvalidArgumentError(
        "an artifact's type must have 1 to 128 characters without / "
        "and :, and must not be job or begin with wandb-");
  }
  constexpr size_t kMostMetadata = 100;
  if (artifact.metadata_count > kMostMetadata) {
    return absl::InvalidArgumentError("an artifact's metadata has more than 100 keys");
  }
  for (size_t i = 0; i < artifact.alias_count; ++i) {
    if (TextOrEmpty(artifact.aliases[i]).find_first_of("/:") != std::string_view::npos) {
      return absl::InvalidArgumentError("an artifact's alias must not have / or :");
    }
  }
  const char* const latest = "latest";
  const bool usual = artifact.alias_count == 0;
  for (absl::Status status : {AddText(object, "name", name), AddText(object, "type", type),
                              AddText(object, "description", TextOrEmpty(artifact.description)),
                              AddTexts(object, "aliases", usual ? &latest : artifact.aliases,
                                       usual ? 1 : artifact.alias_count),
                              AddTexts(object, "tags", artifact.tags, artifact.tag_count)}) {
    if (!status.ok()) return status;
  }
  if (artifact.metadata_count > 0) {
    absl::Status status = ToProto({artifact.metadata, artifact.metadata_count},
                                  AddField("metadata", object)->mutable_object());
    if (!status.ok()) return status;
    if (HasNonFinite(object->fields(object->fields_size() - 1).value())) {
      return absl::InvalidArgumentError("an artifact's metadata has a number that is not finite");
    }
  }
  if (artifact.incremental) AddField("incremental", object)->set_flag(true);
  v1::List* const entries = AddField("entries", object)->mutable_list();
  std::set<std::string_view> names;
  for (size_t i = 0; i < artifact.reference_count; ++i) {
    const std::string_view url = TextOrEmpty(artifact.references[i]);
    const size_t slash = url.rfind('/');
    const bool is_url = url.find("://") != std::string_view::npos && slash + 1 < url.size();
    if (!is_url || !IsUtf8(url)) {
      return absl::InvalidArgumentError("a reference must be a URL with a name at its end");
    }
    if (!names.insert(url.substr(slash + 1)).second) {
      return absl::InvalidArgumentError("two references have the same name at their ends");
    }
    v1::Object* const entry = entries->add_values()->mutable_object();
    AddField("path", entry)->set_text(std::string(url.substr(slash + 1)));
    AddField("ref", entry)->set_text(std::string(url));
  }
  return absl::OkStatus();
}

absl::Status UseToProto(std::string_view name, v1::Object* artifact) {
  const std::string_view last = name.substr(name.rfind('/') + 1);
  const size_t colon = std::min(last.find(':'), last.size());
  const bool valid = IsUtf8(name) && std::count(name.begin(), name.end(), '/') <= 2 &&
                     name.find("//") == name.npos && name.substr(0, 1) != "/" && colon > 0 &&
                     colon + 1 != last.size() && last.find(':', colon + 1) == last.npos;
  if (!valid) {
    return absl::InvalidArgumentError(
        "UseArtifact: the name must be [[ENTITY/]PROJECT/]NAME[:ALIAS]");
  }
  AddField("use", artifact)->set_text(std::string(name));
  return absl::OkStatus();
}

std::string FileNameError(std::string_view name) {
  if (name.empty() || name[0] == '/' || !IsUtf8(name)) {
    return "a file of a run needs a name: UTF-8, and not beginning with /";
  }
  for (const std::string_view own : {"config.yaml", "wandb-summary.json", "wandb-metadata.json",
                                     "requirements.txt", "output.log"}) {
    if (name == own) {
      return std::string(name) +
             " is a file that Ranklog writes itself, and would replace; give it another name";
    }
  }
  for (size_t at = 0; at <= name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    if (name.substr(at, end - at) == "..") return "a file's name must not have ..";
    at = end + 1;
  }
  return "";
}

absl::Status ToProto(const ranklog_alert_options& options, v1::Object* alert) {
  const std::string_view title = View(options.title, options.title_bytes);
  const std::string_view text = View(options.text, options.text_bytes);
  const char* error = nullptr;
  if (!IsUtf8(title) || !IsUtf8(text)) {
    error = "the title or the text is not UTF-8";
  } else if (title.empty()) {
    error = "the title is empty";
  } else if (Characters(title) > kMaxTitle) {
    error = "the title has more than 64 characters";
  } else if (options.level < 0 || options.level >= static_cast<int>(kAlertLevels.size())) {
    error = "the level must be info, warn or error";
  } else if (options.wait_ms < 0) {
    error = "the wait is negative";
  }
  if (error != nullptr) return absl::InvalidArgumentError(std::string("Alert: ") + error);
  AddField("title", alert)->set_text(std::string(title));
  AddField("text", alert)->set_text(std::string(text));
  AddField("level", alert)->set_text(std::string(kAlertLevels[static_cast<size_t>(options.level)]));
  AddField("wait_ms", alert)->set_integer(options.wait_ms);
  return absl::OkStatus();
}

}  // namespace ranklog::internal
