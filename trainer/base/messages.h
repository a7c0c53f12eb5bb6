// Non-blocking output to stderr, which may be a paused terminal or a pipe without a reader.

#ifndef TRAINER_BASE_MESSAGES_H_
#define TRAINER_BASE_MESSAGES_H_

#include <cstddef>
#include <string>

#include "absl/time/time.h"

namespace ranklog::trainer {

// All output of a rank and of the launcher uses these functions. A write to std::cerr would wait
// for the reader, and so delay the training and a stop. Call them from any thread; none throws.

// Writes `text`, or keeps it until a later call finds room. Keeps the newest 32. On a terminal, it
// replaces an unfinished line, such as one of WriteProgress(). Control characters become spaces: a
// file name or a server's answer must not control the terminal.
void WriteMessage(std::string text);

// Writes `text` after the kept messages, or drops it.
void WriteProgress(const std::string& text);

// Waits at most `patience` until the kept messages are written. Call it before the process ends.
void AwaitMessages(absl::Duration patience = absl::Seconds(1));

// Writes as much of `text` as fits now. For signal handlers.
void WriteFromHandler(const char* text, size_t size);

}  // namespace ranklog::trainer

#endif  // TRAINER_BASE_MESSAGES_H_
