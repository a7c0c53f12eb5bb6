// ranklog artifacts: the artifacts and files that a run's ranks logged.

#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/cli/command.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/cli/runs/artifacts_get.h"
#include "service/deliver/json/json_writer.h"
#include "service/model/item.h"
#include "service/model/run.h"
#include "service/query/run_report.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr char kArtifactsFooter[] = R"(
STATE is "delivered" once every tracker of the run has it, "refused" if a tracker does not take it (see `ranklog dead`),
"uploading" with the part that the tracker has, as of some seconds ago, and "waiting" before that. "local": the run
stays on this node, and its files are kept in STATE_DIR/content.

`ranklog artifacts get NAME --root DIR` downloads a version of an artifact of the tracker to a directory. NAME is
[[ENTITY/]PROJECT/]NAME[:ALIAS]; without them, $WANDB_ENTITY, --project or $WANDB_PROJECT, and "latest" apply. An alias
may be a version, "v3". Each file is checked (MD5) before it gets its name. Files that are right already are not
downloaded, so the same command continues a download. References are listed, not downloaded.

Exit code: 0 success, 1 failure, 2 wrong usage.

Examples:
  ranklog artifacts latest
  ranklog artifacts get gpt:latest --project llm --root checkpoint
  ranklog artifacts get my-team/llm/gpt:v3 --type model --root checkpoint
  ranklog artifacts latest --json | jq -r '.[] | select(.state == "waiting") | .name')";

struct ArtifactsFlags {
  RunArgument run;  // or "get"
  bool json = false;
  ArtifactsGetFlags get;
};

// How far an upload is at the tracker that is furthest behind.
struct UploadState {
  const char* text = "local";
  uint64_t sent_bytes = 0;
};

// The uploads of a run, oldest first, with their states.
class UploadStates {
 public:
  static absl::StatusOr<UploadStates> Read(storage::StoreReader& reader, int64_t run) {
    UploadStates states;
    ASSIGN_OR_RETURN(states.uploads_, reader.Uploads(run, 0));
    ASSIGN_OR_RETURN(states.deliveries_, reader.Deliveries(run));
    ASSIGN_OR_RETURN(const std::vector<model::DeadLetter> letters, reader.DeadLetters(run));
    for (const model::DeadLetter& letter : letters) states.refused_.insert(letter.content);
    return states;
  }
  const std::vector<model::StoredItem>& uploads() const { return uploads_; }

  UploadState Of(const model::StoredItem& upload) const {
    UploadState state;
    for (const model::Delivery& delivery : deliveries_) {
      if (delivery.kind == query::kLocal) continue;
      const model::Delivery::Uploads done = delivery.uploads();
      if (done.through >= upload.id) {
        if (IsRefused(upload.item)) return {"refused"};
        state = {"delivered"};
        continue;
      }
      const auto next =
          std::find_if(uploads_.begin(), uploads_.end(),
                       [&done](const model::StoredItem& other) { return other.id > done.through; });
      if (next->id != upload.id || done.sent_bytes == 0) return {"waiting"};
      return {"uploading", done.sent_bytes};
    }
    return state;
  }

 private:
  // A dead letter has the beginning of what was refused, which names it.
  bool IsRefused(const model::Item& item) const {
    return refused_.count(
               deliver::ToJsonText(item.object).substr(0, model::DeadLetter::kMaxContent)) > 0;
  }

  std::vector<model::StoredItem> uploads_;
  std::vector<model::Delivery> deliveries_;
  std::set<std::string> refused_;  // contents of dead letters
};

// What the two kinds of items have in common.
model::Json Describe(const model::StoredItem& stored, const UploadState& state) {
  const model::Json& object = stored.item.object;
  const bool is_file = stored.item.kind == model::Item::Kind::kRunFile;
  const bool is_used = object.contains("use");
  const auto member = [&object](const char* key) {
    return object.contains(key) ? object[key] : model::Json(nullptr);
  };
  const model::Json entries = is_file ? model::Json::array({object}) : member("entries");
  model::Json files = model::Json::array();
  uint64_t bytes = 0;
  for (const model::Item::StagedFile& file : stored.item.StagedFiles()) bytes += file.bytes;
  for (const model::Json& entry : entries) {
    model::Json file = model::Json::object();
    for (const char* key : {"path", "bytes", "ref"}) {
      if (entry.contains(key)) file[key] = entry[key];
    }
    files.push_back(std::move(file));
  }
  return {{"name", member(is_file   ? "path"
                          : is_used ? "use"
                                    : "name")},
          {"type", is_file   ? model::Json("file")
                   : is_used ? model::Json("used")
                             : member("type")},
          {"aliases", is_file || is_used ? model::Json::array() : member("aliases")},
          {"step", member("step")},
          {"timestamp", static_cast<double>(stored.item.time_us) / 1e6},
          {"bytes", bytes},
          {"files", std::move(files)},
          {"state", state.text},
          {"sent_bytes", state.sent_bytes}};
}

std::string TextOf(const model::Json& value) {
  return value.is_string() ? value.get<std::string>() : "";
}

// "uploading 37 % (1.2 of 3.4 GiB)"
std::string StateText(const model::Json& artifact) {
  const std::string state = TextOf(artifact["state"]);
  const auto sent = artifact["sent_bytes"].get<uint64_t>();
  if (sent == 0) return state;
  const auto bytes = std::max<uint64_t>(artifact["bytes"].get<uint64_t>(), 1);
  return absl::StrFormat("%s %d %% (%s of %s)", state, std::min<uint64_t>(sent * 100 / bytes, 100),
                         BytesText(static_cast<int64_t>(sent)),
                         BytesText(static_cast<int64_t>(bytes)));
}

absl::Status Artifacts(const Globals& globals, const ArtifactsFlags& flags) {
  if (flags.run.text == "get" && !flags.get.name.empty()) {
    if (flags.get.root.empty()) return WrongUsage("get needs --root DIR");
    return GetArtifact(globals, flags.get, flags.run.project);
  }
  if (!flags.get.name.empty()) return WrongUsage("only `ranklog artifacts get` takes a NAME");
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  ASSIGN_OR_RETURN(const UploadStates states, UploadStates::Read(*reader, run.id));
  model::Json array = model::Json::array();
  for (const model::StoredItem& upload : states.uploads()) {
    array.push_back(Describe(upload, states.Of(upload)));
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
           StateText(artifact)});
    }
    std::cout << table.ToString(Terminal::Of(STDOUT_FILENO));
  }
  return absl::OkStatus();
}

}  // namespace

void AddArtifacts(Program& program) {
  auto [options, flags] =
      program.Add("artifacts", "list the artifacts and files of a run, or download an artifact",
                  kArtifactsFooter, Artifacts);
  flags.run.AddTo(options);
  options.Add("NAME", &flags.get.name, "after `get`: the artifact to download");
  options.Add("--json", &flags.json, "print an array of objects, with each file");
  options.Add("--root", &flags.get.root, "get: the directory to download to", {.type = "DIR"});
  options.Add("--type", &flags.get.type, "get: fail if the artifact has another type",
              {.type = "TYPE"});
  options.Add("--base-url", &flags.get.base_url,
              "get: the tracker's server; default $WANDB_BASE_URL", {.type = "URL"});
  options.Add("--timeout", &flags.get.timeout,
              "get: how long to retry if the server does not answer; default 30s",
              {.type = "DURATION", .check = CheckDuration});
}

}  // namespace ranklog::cli
