#include "service/deliver/clickhouse/schema.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

namespace ranklog::deliver::clickhouse {
namespace {

// An administrator makes the tables that the program makes.
TEST(SchemaTest, TheFileForAdministratorsHasTheSameStatements) {
  std::ifstream file(SCHEMA_SQL);
  std::stringstream text;
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("--", 0) != 0) text << line << '\n';
  }
  EXPECT_EQ(text.str(), "\n" + SchemaText());
}

}  // namespace
}  // namespace ranklog::deliver::clickhouse
