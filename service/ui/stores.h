#ifndef SERVICE_UI_STORES_H_
#define SERVICE_UI_STORES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "service/query/run_report.h"
#include "service/storage/store_reader.h"

namespace ranklog::ui {

// A store that the page shows.
struct StoreSource {
  std::string dir;  // state directory
  // Adds to reports what is not in the store, such as RunReport::in_spools. May be empty. Called
  // from any thread.
  std::function<absl::Status(storage::StoreReader&, absl::Span<query::RunReport>)> complete;
};

// A run in one of several stores. Its text is "STORE-ID", as in URLs.
struct RunKey {
  size_t store = 0;
  int64_t run = 0;  // the store's id

  //   kInvalidArgument  the text is not a key
  static absl::StatusOr<RunKey> Parse(const std::string& text);
  std::string Text() const;
  friend auto operator<=>(const RunKey&, const RunKey&) = default;
};

// Immutable; use it from any thread.
class Stores {
 public:
  explicit Stores(std::vector<StoreSource> sources) : sources_(std::move(sources)) {}

  const std::vector<StoreSource>& sources() const { return sources_; }

  // A reader of the caller's own. Costs less than a millisecond.
  //   kNotFound  there is no such store
  absl::StatusOr<std::unique_ptr<storage::StoreReader>> Open(size_t store) const;
  // Its report, completed.
  absl::StatusOr<query::RunReport> Report(storage::StoreReader& reader, RunKey key) const;

 private:
  const std::vector<StoreSource> sources_;
};

}  // namespace ranklog::ui

#endif  // SERVICE_UI_STORES_H_
