// Limits on the keys of one stream, whether it arrives by gRPC or from a ring.

#ifndef SERVICE_INGEST_RING_SHAPE_BOUNDS_H_
#define SERVICE_INGEST_RING_SHAPE_BOUNDS_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "ranklog/v1/spool_layout.h"

namespace ranklog::ingest {

// Counts the shapes of one connection's stream or of one ring. Not thread-safe.
class ShapeBounds {
 public:
  // Call it before using a shape. `keys` is a range of strings.
  //   kResourceExhausted  the shape, or all shapes together, exceed the limits of libranklog
  //   kInvalidArgument    shape 0, which cannot have keys
  template <typename Keys>
  absl::Status Add(uint32_t id, const Keys& keys) {
    size_t count = 0;
    for (const auto& key : keys) {
      ++count;
      key_bytes_ += 4 + key.size();
    }
    if (id > v1::kMaxShapes || count > v1::kMaxShapeKeys || key_bytes_ > v1::kMaxStreamKeyBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("shape ", id, " of ", count, " keys: a stream has at most ", v1::kMaxShapes,
                       " shapes of ", v1::kMaxShapeKeys, " keys and ", v1::kMaxStreamKeyBytes >> 20,
                       " MiB of keys"));
    }
    if (id == 0) return absl::InvalidArgumentError("shape 0 has no keys to define");
    return absl::OkStatus();
  }

 private:
  size_t key_bytes_ = 0;  // key sizes, plus 4 bytes per key
};

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_RING_SHAPE_BOUNDS_H_
