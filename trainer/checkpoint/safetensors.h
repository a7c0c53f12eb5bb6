#ifndef TRAINER_CHECKPOINT_SAFETENSORS_H_
#define TRAINER_CHECKPOINT_SAFETENSORS_H_

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace ranklog::trainer {

// What a file of the safetensors format holds: tensors and texts, by name. Every Python framework
// reads such files, and no code is run by reading one. trainer/checkpoint.md describes the bytes.
struct SafeTensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
  bool verified = false;  // it was read, and had a checksum, which was right
};

// Writes `content` to `path`: whole or not at all, see DurableFile. Appends a checksum of the file
// as a tensor "crc32". Tensors may be on any device, and go through memory one at a time. Throws
// what LibTorch throws.
//   kInvalidArgument  a name is taken by the format, or a tensor's type has no name in it
//   others            the file cannot be written, by errno: kResourceExhausted for a full disk
absl::Status WriteSafeTensors(const std::string& path, const SafeTensors& content);

// Reads a file into CPU tensors, and checks every byte that it names: one that was cut off, or has
// holes, is refused, and so is one whose checksum is wrong. The checksum may be absent, as in files
// of other programs; it is not among the tensors.
//   kNotFound         there is no such file
//   kDataLoss         it was cut off or changed since it was written
//   kInvalidArgument  it is no safetensors file, or has a type that this program has not
//   others            it cannot be read, by errno
absl::StatusOr<SafeTensors> ReadSafeTensors(const std::string& path);

}  // namespace ranklog::trainer

#endif  // TRAINER_CHECKPOINT_SAFETENSORS_H_
