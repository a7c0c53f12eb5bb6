#ifndef RANKLOG_EXPORT_H_
#define RANKLOG_EXPORT_H_

#include <string>  // defines the macros that are checked below

// If the program uses other layouts of the standard types, it links with libranklog.so but crashes
// in its first call.
#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "libranklog needs _GLIBCXX_USE_CXX11_ABI=1: use PyTorch 2.7 or later, or libtorch-cxx11-abi"
#elif defined(_GLIBCXX_DEBUG)
#error "libranklog cannot be used with -D_GLIBCXX_DEBUG: use -D_GLIBCXX_ASSERTIONS in its place"
#endif

// Marks what libranklog.so exports. All other symbols are hidden.
#define RANKLOG_EXPORT __attribute__((visibility("default")))

#endif  // RANKLOG_EXPORT_H_
