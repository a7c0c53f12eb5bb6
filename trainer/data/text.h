#ifndef TRAINER_DATA_TEXT_H_
#define TRAINER_DATA_TEXT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace ranklog::trainer {

// A text to train on: the bytes of its files, one after another; gzipped files are unpacked.
struct Text {
  std::string name;  // its location, for messages
  std::vector<std::string> files;
};

// `data` is the path of a plain or gzipped file. "builtin" is the text of Debian's jargon-text or,
// if that is not installed, the licences in /usr/share/common-licenses.
//   kNotFound          it does not exist, or may not be read
//   kInvalidArgument   it is not a regular file
absl::StatusOr<Text> FindText(const std::string& data);

// Whether the text is one plain file, which can be mapped.
bool IsPlainFile(const Text& text);

// Calls `sink` with the text's bytes, in order and in pieces, until it returns an error.
//   kDataLoss          a file cannot be read to its end
absl::Status ReadText(const Text& text, const std::function<absl::Status(absl::string_view)>& sink);

// Like ReadText(), but with the stored bytes of the files.
absl::Status ReadFiles(const Text& text,
                       const std::function<absl::Status(absl::string_view)>& sink);

}  // namespace ranklog::trainer

#endif  // TRAINER_DATA_TEXT_H_
