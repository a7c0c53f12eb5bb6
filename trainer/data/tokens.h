#ifndef TRAINER_DATA_TOKENS_H_
#define TRAINER_DATA_TOKENS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace ranklog::trainer {

// A read-only sequence of tokens, in memory or mapped from a file. A token takes 1 or 2 bytes.
// Copies and parts of a sequence share its memory.
//
// A mapped file must not be shortened while it is in use. Otherwise this program prints a message,
// and the kernel ends it by SIGBUS.
class Tokens {
 public:
  Tokens() = default;
  explicit Tokens(std::vector<uint8_t> tokens);
  explicit Tokens(std::vector<uint16_t> tokens);

  // Maps the file from byte `offset` to its end. `width` is 1 or 2 (little-endian) bytes per token.
  //   kNotFound            the file does not exist, or may not be read
  //   kInvalidArgument     it is not a regular file
  //   kDataLoss            it ends inside a token, or before `offset`
  //   kResourceExhausted   it cannot be mapped
  static absl::StatusOr<Tokens> Map(const std::string& path, int width, size_t offset = 0);

  size_t size() const { return size_; }

  // Writes tokens begin .. begin + count - 1 to `out`. They must exist.
  void Copy(size_t begin, size_t count, int64_t* out) const;

  // Tokens begin .. begin + count - 1, which must exist.
  Tokens Part(size_t begin, size_t count) const;

  // A CRC-32 that distinguishes texts of equal length. If the tokens take more than 64 MiB, reads
  // 64 pieces of 1 MiB, evenly spread from the first to the last token.
  uint32_t Digest() const;

  // The largest token, -1 if there are none. Reads all of them.
  int64_t Largest() const;

 private:
  Tokens(std::shared_ptr<const void> memory, const uint8_t* first, size_t size, int width)
      : memory_(std::move(memory)), first_(first), size_(size), width_(width) {}

  std::shared_ptr<const void> memory_;  // shared by the copies and parts of a sequence
  const uint8_t* first_ = nullptr;
  size_t size_ = 0;
  int width_ = 1;
};

// The number of adjacent sequences of `seq_len` tokens in `tokens`, each with a next token.
size_t WindowCount(const Tokens& tokens, size_t seq_len);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_TOKENS_H_
