#ifndef RANKLOG_EXPORT_H_
#define RANKLOG_EXPORT_H_

// Marks what libranklog.so exports; all else is hidden.
#define RANKLOG_EXPORT __attribute__((visibility("default")))

#endif  // RANKLOG_EXPORT_H_
