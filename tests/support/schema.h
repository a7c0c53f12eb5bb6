// The messages of ranklog.proto by reflection, which the generated code lacks. So a test can find a
// field that the programs forget.

#ifndef TESTS_SUPPORT_SCHEMA_H_
#define TESTS_SUPPORT_SCHEMA_H_

#include <map>
#include <string>
#include <vector>

namespace ranklog::testing {

// `type` is the name of a message, and `bytes` is such a message, serialized.

// The names of the fields that are not set in `bytes`.
std::vector<std::string> UnsetFields(const std::string& type, const std::string& bytes);

// By the name of each field that is set in `bytes`: the message without that field.
std::map<std::string, std::string> WithoutEachField(const std::string& type,
                                                    const std::string& bytes);

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_SCHEMA_H_
