#ifndef RANKLOG_EXCEPTIONS_H_
#define RANKLOG_EXCEPTIONS_H_

// `try` and `catch (...)` of our headers, which also compile with -fno-exceptions. An allocation
// that fails then ends the process, as everywhere in such a program.
#ifdef __cpp_exceptions
#define RANKLOG_TRY try
#define RANKLOG_CATCH_ALL catch (...)
#else
#define RANKLOG_TRY if (true)
#define RANKLOG_CATCH_ALL else
#endif

#endif  // RANKLOG_EXCEPTIONS_H_
