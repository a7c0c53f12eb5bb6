// Wrappers of SQLite: a connection with its statements, a query's rows, and errors as Status. Only
// files in this folder include sqlite3.h.

#ifndef SERVICE_STORAGE_DATABASE_SQLITE_H_
#define SERVICE_STORAGE_DATABASE_SQLITE_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct sqlite3;
struct sqlite3_stmt;

namespace ranklog::storage {

// A parameter of a statement. Does not own the text or bytes that it was made from.
class Parameter {
 public:
  template <std::integral T>
  Parameter(T value) : integer_(static_cast<int64_t>(value)) {}  // NOLINT: an argument converts
  Parameter(const std::string& text) : kind_(Kind::kText), bytes_(text) {}  // NOLINT
  Parameter(absl::string_view text) : kind_(Kind::kText), bytes_(text) {}   // NOLINT
  Parameter(const char* text) : kind_(Kind::kText), bytes_(text) {}         // NOLINT
  static Parameter Blob(absl::string_view bytes);

  int BindTo(sqlite3_stmt* statement, int index) const;

 private:
  enum class Kind { kInteger, kText, kBlob };
  Kind kind_ = Kind::kInteger;
  int64_t integer_ = 0;
  absl::string_view bytes_;
};

// The rows of a SELECT, one at a time:
//   while (query.Next()) Use(query.Integer(0));
//   RETURN_IF_ERROR(query.status());
// Keeps a read transaction open until it is destroyed, so keep it short.
class Query {
 public:
  Query(sqlite3_stmt* statement, absl::Status status);
  Query(Query&& other) noexcept;
  Query& operator=(Query&&) = delete;
  ~Query();

  // False after the last row, and on an error; status() returns the error.
  bool Next();
  const absl::Status& status() const { return status_; }

  // Values of the current row; columns count from 0.
  int64_t Integer(int column) const;
  uint64_t Unsigned(int column) const { return static_cast<uint64_t>(Integer(column)); }
  bool Flag(int column) const { return Integer(column) != 0; }
  std::string Text(int column) const;
  absl::string_view Bytes(int column) const;  // valid until Next()

 private:
  sqlite3_stmt* statement_;  // the Database's; null after a move
  absl::Status status_;
};

// One connection. Not thread-safe.
class Database {
 public:
  enum class Mode { kReadOnly, kReadWithoutTrace, kReadWrite };

  // Opens an existing file; kReadOnly also where SQLite cannot create a -shm. A reader in a directory
  // that can be written leaves a -shm and a -wal; kReadWithoutTrace creates none if nobody has the file
  // open and its log is empty, and reads the file as it is. If a daemon opens it meanwhile, calls
  // return kUnavailable: open it anew. `vfs` may be null.
  // Calls wait up to 5 s for a lock, and then return kUnavailable.
  static absl::StatusOr<Database> Open(const std::string& path, Mode mode, const char* vfs);

  // Runs a script of statements whose results are ignored.
  absl::Status Execute(const char* script);
  // Runs one statement. It is prepared at its first use and cached by its text, so put values in
  // parameters, never in the text.
  absl::Status Run(absl::string_view sql, absl::Span<const Parameter> parameters = {});
  // The same for a SELECT. Only one Query of the same text at a time; it must not outlive this
  // object.
  Query Select(absl::string_view sql, absl::Span<const Parameter> parameters = {});
  // The first column of the first row; kNotFound if there is none.
  absl::StatusOr<int64_t> SelectInteger(absl::string_view sql,
                                        absl::Span<const Parameter> parameters = {});

  int64_t last_insert_id() const;
  int64_t changed_rows() const;  // by the last Run()
  bool in_transaction() const;
  const std::string& path() const { return path_; }
  sqlite3* handle() const { return handle_.get(); }

 private:
  struct Close {
    void operator()(sqlite3* handle) const;
  };
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  using Handle = std::unique_ptr<sqlite3, Close>;
  using Statement = std::unique_ptr<sqlite3_stmt, Finalize>;

  Database(std::string path, Handle handle) : path_(std::move(path)), handle_(std::move(handle)) {}
  absl::StatusOr<sqlite3_stmt*> Prepare(absl::string_view sql);

  std::string path_;
  Handle handle_;
  // After handle_: finalized before it closes.
  absl::flat_hash_map<std::string, Statement> statements_;
};

// The Status for a result code of `handle`; OK for SQLITE_OK, ROW and DONE. `doing` starts the
// message.
//   kResourceExhausted   no space, or no quota
//   kDataLoss            damaged, or not an SQLite database
//   kUnavailable         locked by another connection for too long, or its file system became
//                        read-only
//   kPermissionDenied    may not be opened or written
//   kInternal            any other error: an I/O error, a wrong statement, no memory
absl::Status SqliteStatus(sqlite3* handle, int result, absl::string_view doing);

}  // namespace ranklog::storage

#endif  // SERVICE_STORAGE_DATABASE_SQLITE_H_
