#ifndef RANKLOG_COMPILER_H_
#define RANKLOG_COMPILER_H_

#include <cstddef>  // defines the macros that are checked below

// `try` and `catch (...)` of our headers, which also compile with -fno-exceptions. An allocation
// that fails then ends the process, as everywhere in such a program.
#ifdef __cpp_exceptions
#define RANKLOG_TRY try
#define RANKLOG_CATCH_ALL catch (...)
#else
#define RANKLOG_TRY if (true)
#define RANKLOG_CATCH_ALL else
#endif

// The inline namespace of our C++ headers. Two libraries of one process may be compiled with
// different layouts of the standard types. Then they must not share our inline functions, which the
// linker would merge by name.
#if defined(_LIBCPP_VERSION)
#define RANKLOG_LAYOUT libcxx
#elif defined(_GLIBCXX_DEBUG) && !_GLIBCXX_USE_CXX11_ABI
#define RANKLOG_LAYOUT old_strings_debug
#elif defined(_GLIBCXX_DEBUG)
#define RANKLOG_LAYOUT debug
#elif defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#define RANKLOG_LAYOUT old_strings
#else
#define RANKLOG_LAYOUT usual
#endif

#endif  // RANKLOG_COMPILER_H_
