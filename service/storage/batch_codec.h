// The blobs of the store as bytes: batches, the keys of shapes, documents. schema.md describes them
// bit by bit. Each ends with a CRC-32C of what is before, so that damage is found when it is read,
// never handed on. The checksum also covers an owner, which is not in the blob: what lies at
// another one's place does not fit. One that was sealed without an owner fits any.

#ifndef SERVICE_STORAGE_BATCH_CODEC_H_
#define SERVICE_STORAGE_BATCH_CODEC_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "service/model/batch.h"

namespace ranklog::storage {

// Replaces `blob`, whose memory is used again. `batch` is valid. About 8.3 bytes per value of a
// dense block.
void EncodeBatch(const model::Batch& batch, std::string& blob, absl::string_view owner = "");
// The batch as it was, NaN payloads included. kDataLoss if the bytes are damaged.
absl::StatusOr<model::Batch> DecodeBatch(absl::string_view blob, absl::string_view owner = "");

std::string EncodeKeys(absl::Span<const std::string> keys, absl::string_view owner = "");
// kDataLoss as above.
absl::StatusOr<std::vector<std::string>> DecodeKeys(absl::string_view blob,
                                                    absl::string_view owner = "");

// Adds the checksum to bytes of any meaning.
std::string Sealed(absl::string_view bytes);
// Takes it off again: a view into `blob`. kDataLoss if it does not fit.
absl::StatusOr<absl::string_view> Unsealed(absl::string_view blob, absl::string_view owner = "");

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_BATCH_CODEC_H_
