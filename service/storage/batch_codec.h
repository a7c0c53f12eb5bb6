// The blobs of the store as bytes: batches, the keys of shapes, documents. schema.md describes them
// bit by bit. Each ends with a CRC-32C of what is before, so that damage is found when it is read,
// never handed on.

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
void EncodeBatch(const model::Batch& batch, std::string& blob);
// The batch as it was, NaN payloads included. kDataLoss if the bytes are damaged.
absl::StatusOr<model::Batch> DecodeBatch(absl::string_view blob);

std::string EncodeKeys(absl::Span<const std::string> keys);
absl::StatusOr<std::vector<std::string>> DecodeKeys(absl::string_view blob);  // kDataLoss

// Adds the checksum to bytes of any meaning.
std::string Sealed(absl::string_view bytes);
// Takes it off again: a view into `blob`. kDataLoss if it does not fit.
absl::StatusOr<absl::string_view> Unsealed(absl::string_view blob);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_BATCH_CODEC_H_
