// A stream of the store by its id, which only tests need.

#ifndef TESTS_SERVICE_STORAGE_STORED_STREAM_H_
#define TESTS_SERVICE_STORAGE_STORED_STREAM_H_

#include "service/base/status_macros.h"
#include "service/storage/store_reader.h"

namespace ranklog::storage {

// kNotFound: no run of the store has such a stream.
inline absl::StatusOr<model::Stream> StoredStream(StoreReader& reader, int64_t id) {
  ASSIGN_OR_RETURN(const std::vector<model::Run> runs, reader.Runs());
  for (const model::Run& run : runs) {
    ASSIGN_OR_RETURN(const std::vector<model::Stream> streams, reader.Streams(run.id));
    for (const model::Stream& stream : streams) {
      if (stream.id == id) return stream;
    }
  }
  return absl::NotFoundError("no such stream");
}

}  // namespace ranklog::storage

#endif  // TESTS_SERVICE_STORAGE_STORED_STREAM_H_
