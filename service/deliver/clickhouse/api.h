// Requests and answers of ClickHouse's HTTP interface.

#ifndef SERVICE_DELIVER_CLICKHOUSE_API_H_
#define SERVICE_DELIVER_CLICKHOUSE_API_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "service/deliver/http/retry.h"
#include "service/deliver/http/transport.h"
#include "service/model/session.h"

namespace ranklog::deliver::clickhouse {

inline constexpr char kKind[] = "clickhouse";  // value of Delivery.kind

// Codes of exceptions. Source: ClickHouse's src/Common/ErrorCodes.cpp.
inline constexpr int kUnknownTable = 60;
inline constexpr int kUnknownDatabase = 81;
inline constexpr int kTooManyParts = 252;

// Where a run goes.
struct Server {
  std::string url;       // without the database, with a slash at its end
  std::string database;  // "default" if none is given
};
// `address` is checked. The setting `database` counts before the last segment of the address.
Server ServerAt(absl::string_view address, const model::RunSettings& settings);

using Parameters = std::vector<std::pair<std::string, std::string>>;
// A statement whose answer is small. A parameter NAME is {NAME:Type} in it.
HttpRequest Query(const Server& server, absl::string_view sql, const Parameters& parameters = {});
// The same without a database, to create it.
HttpRequest CreateDatabase(const Server& server);
// An insert of one block. `columns` "a, b". `token` names the rows: the server drops a second insert
// with the same one, in the table and in its views. Empty: none.
HttpRequest Insert(const Server& server, absl::string_view table, absl::string_view columns,
                   absl::string_view format, absl::string_view token, std::string body);
// The same with a body that Gzip() made.
HttpRequest InsertGzip(const Server& server, absl::string_view table, absl::string_view columns,
                       absl::string_view format, absl::string_view token, std::string body);

// The code of the exception in an answer; 0: none. The server may have sent the status 200 before.
int ExceptionCode(const absl::StatusOr<HttpResponse>& answer);
// kAccepted, kLater or kBlocked: no request has content that a server could refuse for good.
Outcome OutcomeOf(const absl::StatusOr<HttpResponse>& answer);
// Whether the server refused the credential.
bool IsKeyRefused(const HttpResponse& answer);
// What a person can do about an answer that is kBlocked.
std::string AdviceOn(const absl::StatusOr<HttpResponse>& answer, const Server& server);

// The rows of an answer in the format TabSeparated; texts are not unescaped.
std::vector<std::vector<std::string>> RowsOf(const std::string& body);
// Reverses the escapes of TabSeparated.
std::string Unescaped(absl::string_view text);

// 32 hexadecimal digits.
std::string Digest(absl::string_view text);

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_API_H_
