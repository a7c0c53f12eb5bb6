// Whether bytes from outside are text.

#ifndef SERVICE_INGEST_UTF8_H_
#define SERVICE_INGEST_UTF8_H_

#include <string>

namespace ranklog::ingest {

// Well-formed UTF-8 by table 3-7 of the Unicode standard: no overlong forms, no surrogates, nothing
// above U+10FFFF.
bool IsUtf8(const std::string& bytes);

}  // namespace ranklog::ingest

#endif  // SERVICE_INGEST_UTF8_H_
