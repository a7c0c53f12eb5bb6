#include "service/cli/node/spools/salvage_report.h"

#include <errno.h>
#include <stdlib.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "service/cli/output/progress_bar.h"

namespace ranklog::cli {

absl::StatusOr<storage::Salvaged> SalvageInScratch(const std::string& file, const std::string& near,
                                                   const std::string& to) {
  std::string scratch = absl::StrCat(near, "/", kScratch, "XXXXXX");
  if (mkdtemp(scratch.data()) == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create a directory in ", near));
  }
  ProgressBar reading("read", /*lines=*/false);
  ProgressBar saving("save", /*lines=*/false);
  absl::StatusOr<storage::Salvaged> salvaged = storage::Salvage(
      file, {.scratch = scratch,
             .to = to,
             .reading = [&](uint64_t done, uint64_t total) { reading.Update(done, total); },
             .saving =
                 [&](uint64_t done, uint64_t total) {
                   reading.Clear();
                   saving.Update(done, total);
                 }});
  std::error_code ignored;
  std::filesystem::remove_all(scratch, ignored);
  return salvaged;
}

model::Json ToJson(const storage::Salvaged& salvaged) {
  model::Json streams = model::Json::array();
  for (const storage::Salvaged::Stream& stream : salvaged.streams) {
    streams.push_back({{"run", stream.run_id},
                       {"project", stream.key.project},
                       {"rank", stream.key.rank},
                       {"saved_rows", stream.saved_rows},
                       {"lost_rows", stream.lost_rows}});
  }
  return {{"saved_rows", salvaged.saved_rows()},
          {"lost_rows", salvaged.lost_rows()},
          {"damaged_records", salvaged.damaged_records},
          {"streams", streams}};
}

}  // namespace ranklog::cli
