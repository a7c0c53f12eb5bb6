// The tables in ClickHouse. deploy/clickhouse/schema.sql is the same text for people; a test compares
// the two.

#ifndef SERVICE_DELIVER_CLICKHOUSE_SCHEMA_H_
#define SERVICE_DELIVER_CLICKHOUSE_SCHEMA_H_

#include <string>
#include <vector>

#include "absl/types/span.h"

namespace ranklog::deliver::clickhouse {

// In the table ranklog_schema, which is filled last: so a version means that all tables are there.
inline constexpr unsigned kSchemaVersion = 1;

struct SchemaObject {
  const char* name;
  const char* sql;  // creates it if it is absent
};

// In the order of their creation.
absl::Span<const SchemaObject> SchemaObjects();
// Records the version.
std::string RecordVersion();
// The statements of all of it, each with a semicolon and a newline.
std::string SchemaText();

}  // namespace ranklog::deliver::clickhouse

#endif  // SERVICE_DELIVER_CLICKHOUSE_SCHEMA_H_
