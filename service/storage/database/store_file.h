// The store's file, which schema.md describes: its name, and a limit of its records.

#ifndef SERVICE_STORAGE_DATABASE_STORE_FILE_H_
#define SERVICE_STORAGE_DATABASE_STORE_FILE_H_

#include <cstdint>

#include "ranklog/v1/places.h"

namespace ranklog::storage {

using v1::kStoreFile;

// The largest shape id. Readers get a list indexed by id, and a list of a million takes 24 MB.
inline constexpr uint32_t kMaxShapeId = 1 << 20;

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DATABASE_STORE_FILE_H_
