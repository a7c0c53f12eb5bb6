// ranklog artifacts: the artifacts and files that a run's ranks logged.

#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "service/base/number_text.h"
#include "service/base/status_macros.h"
#include "service/cli/command.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/model/item.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr char kArtifactsFooter[] = R"(
STATE is "delivered" once every tracker of the run has it or has refused it (see `ranklog dead`), and "pending" before
that. "local": the run stays on this node, and its files are kept in STATE_DIR/content.

Examples:
  ranklog artifacts latest
  ranklog artifacts latest --json | jq -r '.[] | select(.state == "pending") | .name')";

struct ArtifactsFlags {
  RunArgument run;
  bool json = false;
};

std::string StateOf(int64_t item, const std::vector<model::Delivery>& deliveries) {
  bool any = false;
  for (const model::Delivery& delivery : deliveries) {
    if (delivery.kind == "local") continue;
    any = true;
    if (delivery.delivered_items < item) return "pending";
  }
  return any ? "delivered" : "local";
}

int64_t BytesOf(const model::Json& entry) {
  return entry.is_object() && entry.contains("bytes") && entry["bytes"].is_number_integer()
             ? entry["bytes"].get<int64_t>()
             : 0;
}

// What the two kinds of items have in common.
model::Json Describe(const model::StoredItem& stored, const std::string& state) {
  const model::Json& object = stored.item.object;
  const bool is_file = stored.item.kind == model::Item::Kind::kRunFile;
  const auto member = [&object](const char* key) {
    return object.contains(key) ? object[key] : model::Json(nullptr);
  };
  const model::Json entries = is_file ? model::Json::array({object}) : member("entries");
  model::Json files = model::Json::array();
  int64_t bytes = 0;
  for (const model::Json& entry : entries) {
    model::Json file = model::Json::object();
    for (const char* key : {"path", "bytes", "ref"}) {
      if (entry.contains(key)) file[key] = entry[key];
    }
    bytes += BytesOf(entry);
    files.push_back(std::move(file));
  }
  return {{"name", is_file ? member("path") : member("name")},
          {"type", is_file ? model::Json("file") : member("type")},
          {"aliases", is_file ? model::Json::array() : member("aliases")},
          {"step", member("step")},
          {"timestamp", static_cast<double>(stored.item.time_us) / 1e6},
          {"bytes", bytes},
          {"files", std::move(files)},
          {"state", state}};
}

std::string TextOf(const model::Json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

absl::Status ListArtifacts(const Globals& globals, const ArtifactsFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  ASSIGN_OR_RETURN(const std::vector<model::StoredItem> items, reader->Items(run.id, 0));
  ASSIGN_OR_RETURN(const std::vector<model::Delivery> deliveries, reader->Deliveries(run.id));
  model::Json array = model::Json::array();
  for (const model::StoredItem& stored : items) {
    if (stored.item.kind == model::Item::Kind::kArtifact ||
        stored.item.kind == model::Item::Kind::kRunFile) {
      array.push_back(Describe(stored, StateOf(stored.id, deliveries)));
    }
  }
  if (flags.json) {
    std::cout << PrettyJson(array);
  } else if (array.empty()) {
    std::cout << "no artifacts or files were logged in this run\n";
  } else {
    Table table({"NAME", "TYPE", "ALIASES", "STEP", "FILES", "SIZE", "TIME", "STATE"});
    for (const model::Json& artifact : array) {
      std::vector<std::string> aliases;
      for (const model::Json& alias : artifact["aliases"]) aliases.push_back(TextOf(alias));
      table.AddRow(
          {TextOf(artifact["name"]), TextOf(artifact["type"]), absl::StrJoin(aliases, ","),
           artifact["step"].is_number_integer() ? absl::StrCat(artifact["step"].get<int64_t>())
                                                : "",
           absl::StrCat(artifact["files"].size()), BytesText(artifact["bytes"].get<int64_t>()),
           TimeText(static_cast<int64_t>(artifact["timestamp"].get<double>() * 1e6)),
           TextOf(artifact["state"])});
    }
    std::cout << table.ToString(Terminal::Of(STDOUT_FILENO));
  }
  return absl::OkStatus();
}

}  // namespace

void AddArtifacts(Program& program) {
  auto [options, flags] = program.Add("artifacts", "list the artifacts and files of a run",
                                      kArtifactsFooter, ListArtifacts);
  flags.run.AddTo(options);
  options.Add("--json", &flags.json, "print an array of objects, with each file");
}

}  // namespace ranklog::cli
