#include "service/ui/stores.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/status_macros.h"

namespace ranklog::ui {

absl::StatusOr<RunKey> RunKey::Parse(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, '-');
  uint32_t store = 0;
  int64_t run = 0;
  if (parts.size() == 2 && absl::SimpleAtoi(parts[0], &store) && absl::SimpleAtoi(parts[1], &run)) {
    return RunKey{store, run};
  }
  return absl::InvalidArgumentError("the parameter run is not of the form STORE-ID");
}

std::string RunKey::Text() const { return absl::StrCat(store, "-", run); }

absl::StatusOr<std::unique_ptr<storage::StoreReader>> Stores::Open(size_t store) const {
  if (store >= sources_.size()) return absl::NotFoundError("there is no such store");
  return storage::StoreReader::OpenWithoutTrace(sources_[store].dir);
}

absl::StatusOr<query::RunReport> Stores::Report(storage::StoreReader& reader, RunKey key) const {
  ASSIGN_OR_RETURN(const model::Run run, reader.GetRun(key.run));
  ASSIGN_OR_RETURN(query::RunReport report, query::ReportRun(reader, run));
  if (const auto& complete = sources_[key.store].complete) {
    RETURN_IF_ERROR(complete(reader, absl::MakeSpan(&report, 1)));
  }
  return report;
}

}  // namespace ranklog::ui
