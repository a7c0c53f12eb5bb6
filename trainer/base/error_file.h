#ifndef TRAINER_BASE_ERROR_FILE_H_
#define TRAINER_BASE_ERROR_FILE_H_

#include <string>
#include <string_view>

namespace ranklog::trainer {

// The JSON of torchrun's error file. torchrun reads it to report which rank failed first, and why.
std::string ErrorFileContent(std::string_view message, int rank, long unix_seconds);

// Writes it to $TORCHELASTIC_ERROR_FILE, if that is set. A failure to write is not reported: the
// message is on stderr too.
void WriteErrorFile(std::string_view message, int rank);

// The same before the settings are known: the rank is torchrun's $RANK.
void WriteErrorFile(std::string_view message);

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_ERROR_FILE_H_
