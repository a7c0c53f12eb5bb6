// Describes a run to the server, which makes it if it does not exist.

#ifndef SERVICE_DELIVER_WANDB_API_RUN_UPSERT_H_
#define SERVICE_DELIVER_WANDB_API_RUN_UPSERT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver::wandb {

// An update of a run. Empty texts and lists are sent as null, which changes nothing at the server.
struct Upsert {
  std::string storage_id{};  // from an earlier answer
  std::string run_id{};
  std::string entity{};
  std::string project{};
  std::string config{};  // JSON text, always the whole config
  std::string display_name{};
  std::string group{};
  std::string job_type{};
  std::string notes{};
  std::string host{};
  std::string program{};
  std::string commit{};  // of the program's source, and its repository
  std::string repo{};
  std::vector<std::string> tags{};

  // Calls visit(name, text) with each text that describes the run; `tags` are joined to one.
  void VisitTexts(absl::FunctionRef<void(const char* name, std::string* text)> visit);
};

struct Upserted {
  std::string storage_id;
  std::string run_id;
  std::string display_name;
  std::string entity;
  std::string project;
  int64_t history_lines = 0;  // lines that the run already has
};

std::string UpsertBody(const Upsert& upsert);
// Parses an answer with code 200.
//   kFailedPrecondition  the server reports errors; the message contains them, shortened
//   kInternal            not the answer of a W&B server, or beyond the limits of bounded_json.h
absl::StatusOr<Upserted> ParseUpserted(absl::string_view body);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_API_RUN_UPSERT_H_
