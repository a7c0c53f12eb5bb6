#ifndef TRAINER_CHECKPOINT_SAFETENSORS_H_
#define TRAINER_CHECKPOINT_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::trainer {

// Contents of a safetensors file: tensors and texts, by name. Every Python framework reads such
// files, and reading one runs no code. trainer/checkpoint/checkpoint.md describes the bytes.
struct SafeTensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
  bool verified = false;  // the file was read, and its checksum is correct
};

// Writes `content` to `path`: completely or not at all, see DurableFile. Appends a checksum of the
// file as a tensor "crc32". Tensors may be on any device, and are copied to memory one at a time.
// Throws what LibTorch throws.
//   kInvalidArgument  the format reserves a name, or has no name for a tensor's type
//   others            the file cannot be written, by errno: kResourceExhausted for a full disk
absl::Status WriteSafeTensors(const std::string& path, const SafeTensors& content);

// Reads a file into CPU tensors. Rejects a truncated file, a file with gaps between tensors, and a
// wrong checksum. The checksum may be absent, as in files of other programs. It is not returned as
// a tensor.
//   kNotFound         the file does not exist
//   kDataLoss         it was truncated or changed since it was written
//   kInvalidArgument  it is not a safetensors file, or uses an unsupported data type
//   others            it cannot be read, by errno
absl::StatusOr<SafeTensors> ReadSafeTensors(const std::string& path);

// Reads only the metadata, and checks the header. Errors: those of ReadSafeTensors().
absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const std::string& path);

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_SAFETENSORS_H_
