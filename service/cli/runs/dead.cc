#include <unistd.h>

#include <iostream>

#include "absl/strings/str_cat.h"
#include "service/base/status_macros.h"
#include "service/base/text/number_text.h"
#include "service/cli/command.h"
#include "service/cli/output/json_text.h"
#include "service/cli/output/table.h"
#include "service/model/run.h"
#include "service/storage/store_reader.h"

namespace ranklog::cli {
namespace {

constexpr char kDeadFooter[] = R"(
Examples:
  ranklog dead latest
  ranklog dead latest --json | jq -r '.[].content')";

struct DeadFlags {
  RunArgument run;
  bool json = false;
};

model::Json DeadLetterJson(const model::DeadLetter& letter) {
  return {{"kind", letter.kind},
          {"row", letter.row},
          {"timestamp", static_cast<double>(letter.time_us) / 1e6},
          {"answer", letter.answer},
          {"content", letter.content}};
}

absl::Status ListDeadLetters(const Globals& globals, const DeadFlags& flags) {
  ASSIGN_OR_RETURN(const auto reader, globals.OpenStore());
  ASSIGN_OR_RETURN(const model::Run run, flags.run.Find(globals, *reader));
  ASSIGN_OR_RETURN(const std::vector<model::DeadLetter> letters, reader->DeadLetters(run.id));
  if (flags.json) {
    model::Json array = model::Json::array();
    for (const model::DeadLetter& letter : letters) array.push_back(DeadLetterJson(letter));
    std::cout << PrettyJson(array);
  } else if (letters.empty()) {
    std::cout << "no record of this run was refused\n";
  } else {
    Table table({"DESTINATION", "ROW", "TIME", "ANSWER"});
    for (const model::DeadLetter& letter : letters) {
      table.AddRow(
          {letter.kind, absl::StrCat(letter.row), TimeText(letter.time_us), letter.answer});
    }
    std::cout << table.ToString(Terminal::Of(STDOUT_FILENO));
  }
  return absl::OkStatus();
}

}  // namespace

void AddDead(Program& program) {
  auto [options, flags] =
      program.Add("dead", "list refused records of a run, with the tracker's answers", kDeadFooter,
                  ListDeadLetters);
  flags.run.AddTo(options);
  options.Add("--json", &flags.json, "print an array of objects, with the refused content");
}

}  // namespace ranklog::cli
