// The directory in which ranks leave items that are too large for their ring. Files that are staged for
// uploads lie there too: see storage/staged_files.h.

#ifndef SERVICE_INGEST_RING_CONTENT_DIR_H_
#define SERVICE_INGEST_RING_CONTENT_DIR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ranklog/v1/ranklog.pb.h"
#include "service/base/unique_fd.h"
#include "service/storage/staged_files.h"

namespace ranklog::ingest {

// STATE_DIR/content. A rank writes a file there, and then a reference to it into its ring. The file
// is removed once the item is in the store. Thread-safe.
class ContentDir {
 public:
  // Makes the directory, and removes files older than kKept. Ranks may leave up to `quota` bytes.
  static absl::StatusOr<std::unique_ptr<ContentDir>> Open(const std::string& state_dir,
                                                          int64_t quota, absl::Time now);
  static std::string PathIn(const std::string& state_dir) {
    return storage::ContentDirOf(state_dir);
  }
  // Bytes of all files in the directory of this state directory; 0 if there is none.
  static int64_t BytesIn(const std::string& state_dir);

  // A ring that waits for a daemon for longer may lose its large items. Without a limit, files
  // whose rank died before it wrote the reference would stay.
  static constexpr absl::Duration kKept = absl::Hours(24 * 30);

  // What ranks need to write there.
  v1::ContentPlace Place() const;
  // The item that a reference stands for, with its numbers. Trusts neither the name nor the file.
  //   kDataLoss  the file is absent, not a plain file, not of the given size or unreadable
  absl::StatusOr<v1::Item> Read(const v1::Item& reference) const;
  // Removes the files of references whose items are in the store.
  void Remove(const std::vector<std::string>& names) const;

 private:
  ContentDir(std::string path, UniqueFd dir, int64_t quota)
      : path_(std::move(path)), dir_(std::move(dir)), quota_(quota) {}
  void RemoveBefore(absl::Time time) const;

  const std::string path_;
  const UniqueFd dir_;
  const int64_t quota_;
};

// Replaces the references among the items by the items, and returns the names of their files. A
// reference that cannot be read loses its content; the reason is logged. `content` may be null:
// then none can be read.
std::vector<std::string> ReadContent(const ContentDir* content, std::vector<v1::Item>* items);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_CONTENT_DIR_H_
