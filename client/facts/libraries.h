#ifndef CLIENT_FACTS_LIBRARIES_H_
#define CLIENT_FACTS_LIBRARIES_H_

#include <string>
#include <string_view>
#include <vector>

namespace ranklog::internal {

// "NAME==VERSION" from a library's path: libcudart.so.12.4 is libcudart==12.4, libtorch.so is libtorch,
// libfoo-1.2.so is libfoo==1.2.
std::string LibraryVersion(std::string_view path);

// The shared libraries of this process now, sorted, by LibraryVersion() of their files. With the version
// of libc itself. A forked child may call this whatever the parent's threads did at the fork.
std::vector<std::string> LoadedLibraries();

}  // namespace ranklog::internal

#endif  // CLIENT_FACTS_LIBRARIES_H_
