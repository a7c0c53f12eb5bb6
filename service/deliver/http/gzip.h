#ifndef SERVICE_DELIVER_HTTP_GZIP_H_
#define SERVICE_DELIVER_HTTP_GZIP_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::deliver {

// Compresses `text` with gzip at level 1. Higher levels cost several times more CPU than all other
// work on a row, and save only a tenth of the bytes.
absl::StatusOr<std::string> Gzip(absl::string_view text);

// Compresses a large body that comes in pieces. Pieces that hardly get smaller, such as measured
// doubles, are stored as they are, which halves the time. Not thread-safe.
class GzipWriter {
 public:
  GzipWriter();
  ~GzipWriter();
  GzipWriter(const GzipWriter&) = delete;
  GzipWriter& operator=(const GzipWriter&) = delete;

  // Pieces should have 64 KiB or more, because each one costs a probe.
  void Add(absl::string_view piece);
  // The whole body. Call it once.
  //   kResourceExhausted  no memory
  absl::StatusOr<std::string> Finish();

 private:
  void Deflate(absl::string_view piece, int flush);

  struct Stream;
  const std::unique_ptr<Stream> stream_;
  std::string out_;
};

}  // namespace ranklog::deliver

#endif  // SERVICE_DELIVER_HTTP_GZIP_H_
