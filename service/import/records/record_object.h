// The config or the summary of a run, as records set and remove parts of it.

#ifndef SERVICE_IMPORT_RECORDS_RECORD_OBJECT_H_
#define SERVICE_IMPORT_RECORDS_RECORD_OBJECT_H_

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "service/import/records/record_values.h"
#include "service/model/item.h"

namespace ranklog::imports {

// Not thread-safe. Setting a flat value again costs a copy of its text: it is read when it is taken.
class RecordObject {
 public:
  // `merges`: an object that is set keeps the members that were there (the config); otherwise it
  // replaces them (the summary).
  explicit RecordObject(bool merges) : merges_(merges) {}

  // The values of a config or summary record.
  void Apply(const RecordValues& values);

  // The top-level members that were set or removed since the last call, with their whole values.
  // Null: removed, or not JSON.
  model::Json TakeChanged();

 private:
  struct Member {
    std::string key;
    std::string text{};  // if not empty, `value` must be read from it
    model::Json value{};
    bool changed = false;
  };
  Member& Find(absl::string_view key);
  static void ReadText(Member* member);
  void Set(RecordValues::Path path, absl::string_view json);
  void Remove(RecordValues::Path path);

  const bool merges_;
  std::vector<Member> members_;  // in the order in which they were first set
  absl::flat_hash_map<std::string, size_t> index_;
  size_t expected_ = 0;  // the member that is probably set next
};

}  // namespace ranklog::imports

#endif  // SERVICE_IMPORT_RECORDS_RECORD_OBJECT_H_
