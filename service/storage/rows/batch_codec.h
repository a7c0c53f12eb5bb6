// Encodes the blobs of the store: batches, the keys of shapes, documents. rows.md specifies them
// bit by bit. Each blob ends with a CRC-32C of the bytes before it, so that a reader detects damage
// and never returns damaged data. The checksum also covers an owner that is not in the blob. So a
// blob in the place of another owner does not match. A blob that was sealed without an owner
// matches any owner.

#ifndef SERVICE_STORAGE_ROWS_BATCH_CODEC_H_
#define SERVICE_STORAGE_ROWS_BATCH_CODEC_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/model/batch.h"

namespace ranklog::storage {

// Replaces the content of `blob` and reuses its memory. `batch` must be valid. About 8.3 bytes per
// value of a dense block. Of a block with a source, only what the stream's rows lack is encoded.
void EncodeBatch(const model::Batch& batch, std::string& blob, absl::string_view owner = "");
// Completes a block with a source. The block has its offsets, and the added values. The function
// fills in the rest from the rows of the stream.
using CompleteBlock = absl::FunctionRef<absl::Status(model::Block& block)>;
// Returns kDataLoss: a block of a stream's batch has no source.
absl::Status RefuseSource(model::Block& block);
// Returns the original batch, NaN payloads included, without sources. kDataLoss if the bytes are
// damaged, or errors of `complete`.
absl::StatusOr<model::Batch> DecodeBatch(absl::string_view blob, absl::string_view owner = "",
                                         CompleteBlock complete = RefuseSource);

std::string EncodeKeys(absl::Span<const std::string> keys, absl::string_view owner = "");
// kDataLoss as above.
absl::StatusOr<std::vector<std::string>> DecodeKeys(absl::string_view blob,
                                                    absl::string_view owner = "");

// Adds the checksum to any bytes.
std::string Sealed(absl::string_view bytes);
// Removes the checksum again; returns a view into `blob`. kDataLoss if it does not match.
absl::StatusOr<absl::string_view> Unsealed(absl::string_view blob, absl::string_view owner = "");

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_BATCH_CODEC_H_
