// What is stored as a CBOR document: settings, updates, and anything else that a backend keeps.

#ifndef SERVICE_STORAGE_DOCUMENTS_H_
#define SERVICE_STORAGE_DOCUMENTS_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/model/run.h"
#include "service/model/session.h"

namespace ranklog::storage {

// CBOR (RFC 8949) with a checksum. Keeps NaN, infinities, the order of keys, and integers apart
// from floats.
std::string EncodeDocument(const model::Json& document);
absl::StatusOr<model::Json> DecodeDocument(absl::string_view blob);  // kDataLoss

std::string EncodeSettings(const model::RunSettings& settings);
// A field that the document lacks (a later version added it) has its default.
absl::StatusOr<model::RunSettings> DecodeSettings(absl::string_view blob);  // kDataLoss

// `kind` is run_update.kind: that of the update.
std::string EncodeUpdate(const model::Update& update);
absl::StatusOr<model::Update> DecodeUpdate(int64_t kind, absl::string_view blob);  // kDataLoss

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DOCUMENTS_H_
