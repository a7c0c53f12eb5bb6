// Encodes data that is stored as CBOR documents: settings, items, and the cursors of deliveries.

#ifndef SERVICE_STORAGE_ROWS_DOCUMENTS_H_
#define SERVICE_STORAGE_ROWS_DOCUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::storage {

// CBOR (RFC 8949) with a checksum. Preserves NaN, infinities and the order of keys, and
// distinguishes integers from floats.
std::string EncodeDocument(const model::Json& document);
absl::StatusOr<model::Json> DecodeDocument(absl::string_view blob);  // kDataLoss

std::string EncodeSettings(const model::RunSettings& settings);
// A field that is absent from the document (a later version added it) gets its default.
absl::StatusOr<model::RunSettings> DecodeSettings(absl::string_view blob);  // kDataLoss

// The content of an item, without seq, count, time_us and after_row. `kind` is item.kind.
std::string EncodeItem(const model::Item& item);
// kDataLoss. `called` is of EncodeCalled(), or empty.
absl::StatusOr<model::Item> DecodeItem(int64_t kind, absl::string_view blob,
                                       absl::string_view called = "");
// When the calls were made that set the item's keys; empty: unknown.
std::string EncodeCalled(const model::Item& item);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_ROWS_DOCUMENTS_H_
