#include "client/settings/setting_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/settings/validate.h"
#include "tests/support/file_content.h"

namespace ranklog {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ContainsRegex;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(SettingTableTest, FirstVariableOfATextCounts) {
  for (const internal::TextSetting& text : internal::kTextSettings) {
    const char* const second = text.variables[1];
    if (second != nullptr) {
      setenv(second, "second", 1);
      EXPECT_EQ(Settings::FromEnvironment().*text.member, "second");
    }
    setenv(text.variables[0], "first", 1);
    EXPECT_EQ(Settings::FromEnvironment().*text.member, "first");
    unsetenv(text.variables[0]);
    if (second != nullptr) unsetenv(second);
  }
}

TEST(SettingTableTest, SentTextsAreCheckedAndRepaired) {
  for (const internal::TextSetting& text : internal::kTextSettings) {
    if (text.max_bytes == internal::kNoTextLimit) continue;
    const std::string name = text.name;
    const std::string limit =
        name + " is longer than " + std::to_string(text.max_bytes) + " bytes; Init() cuts it";
    const std::string most(text.max_bytes, 'x');
    Settings settings;
    settings.*text.member = most;
    EXPECT_THAT(settings.Validate(), Not(Contains(limit)));
    settings.*text.member = most + "x";
    EXPECT_THAT(settings.Validate(), Contains(limit));
    EXPECT_EQ(internal::Repair(settings).*text.member, most);
    settings.*text.member = "\xff";
    const std::string encoding = name + " is not UTF-8; Init() writes ? for each wrong byte";
    EXPECT_THAT(settings.Validate(), Contains(encoding));
    EXPECT_THAT(internal::Repair(settings).Validate(), Not(Contains(encoding)));
  }
}

TEST(SettingTableTest, NumbersAreCheckedAndRepaired) {
  internal::ForEachNumberSetting([](const auto& number) {
    using Number = decltype(number.most);
    const std::pair<Number, Number> kRepairs[] = {{number.least - Number(1), number.least},
                                                  {number.most + Number(1), number.most}};
    for (const auto& [wrong, right] : kRepairs) {
      Settings settings;
      settings.*number.member = right;
      EXPECT_THAT(settings.Validate(), ElementsAre());
      settings.*number.member = wrong;
      EXPECT_THAT(settings.Validate(), ElementsAre(HasSubstr(number.name)));
      EXPECT_EQ(internal::Repair(settings).*number.member, right);
    }
  });
}

// The public header cannot include the layout of the spool.
TEST(SettingTableTest, DefaultRingIsThatOfTheLayout) {
  EXPECT_EQ(Settings().spool_bytes, v1::kDefaultRingBytes);
}

// The rows of the table of variables in settings.md, by their second column: `project` and so on.
std::map<std::string, std::string> PageRows() {
  std::map<std::string, std::string> rows;
  std::istringstream page(testing::FileContent(SETTINGS_PAGE));
  const std::regex row("[|] `[A-Z_]+`.* [|] (`[a-z_]+`.*) [|] .* [|]");
  for (std::string line; std::getline(page, line);) {
    std::smatch match;
    if (std::regex_match(line, match, row)) rows[match[1]] = line;
  }
  return rows;
}

size_t Plain(size_t bytes) { return bytes; }
int64_t Plain(std::chrono::milliseconds time) { return time.count(); }

TEST(SettingTableTest, PageAgreesWithTable) {
  std::map<std::string, std::string> rows = PageRows();
  const auto take_row = [&](const std::string& name) {
    auto row = rows.extract("`" + name.substr(0, name.find(' ')) + "`");  // without its unit
    return row.empty() ? "no row for " + name : std::move(row.mapped());
  };
  for (const internal::TextSetting& text : internal::kTextSettings) {
    const std::string second = text.variables[1] == nullptr ? "" : text.variables[1];
    const std::string row = take_row(text.name);
    EXPECT_THAT(row, ContainsRegex("`" + std::string(text.variables[0]) + "`.*" + second));
    for (const std::string choice : text.choices) EXPECT_THAT(row, HasSubstr("`" + choice + "`"));
  }
  internal::ForEachNumberSetting([&](const auto& number) {
    if (number.variable == nullptr) return;
    std::ostringstream limits, otherwise;
    limits << Plain(number.least) << " to " << Plain(number.most);
    otherwise << "default " << Plain(Settings().*number.member);
    EXPECT_THAT(take_row(number.name), AllOf(HasSubstr(number.variable), HasSubstr(limits.str()),
                                             HasSubstr(otherwise.str())));
  });
  for (const internal::FlagSetting& flag : internal::kFlagSettings) {
    const char* const otherwise = Settings().*flag.member ? "default `1`" : "default `0`";
    const std::string second = flag.variables[1] == nullptr ? "" : flag.variables[1];
    EXPECT_THAT(take_row(flag.name), AllOf(HasSubstr("`" + std::string(flag.variables[0]) + "`"),
                                           HasSubstr(second), HasSubstr(otherwise)));
  }
  std::vector<std::string> others;  // settings with code of their own
  for (const auto& [name, row] : rows) others.push_back(name);
  EXPECT_THAT(others, ElementsAre("`credentials`", "`delivery_timeout`", "`destination_settings`",
                                  "`destinations`", "`destinations`, `disabled`", "`log_strategy`",
                                  "`rank_statistics`", "`rank` and so on", "`tags`"));
}

TEST(SettingTableTest, HeaderNamesEveryVariable) {
  const std::string header = testing::FileContent(SETTINGS_HEADER);
  const auto expect = [&](const std::string& text) {
    EXPECT_NE(header.find(text), std::string::npos) << text;
  };
  for (const internal::TextSetting& text : internal::kTextSettings) {
    const std::string second = text.variables[1] == nullptr ? "" : text.variables[1];
    expect(text.variables[0] + (second.empty() ? "" : ", " + second));
    for (const char* choice : text.choices) expect(choice);
  }
  internal::ForEachNumberSetting([&](const auto& number) {
    if (number.variable != nullptr) expect(number.variable);
  });
  for (const internal::FlagSetting& flag : internal::kFlagSettings) {
    const std::string second = flag.variables[1] == nullptr ? "" : flag.variables[1];
    expect(flag.variables[0] + (second.empty() ? "" : ", " + second));
  }
}

// The members of the struct in the public header, by a pattern for their declarations. Without
// on_message, which has a function of its own in ranklog/c.h.
std::vector<std::string> MembersOfHeader() {
  const std::string header = testing::FileContent(SETTINGS_HEADER);
  const size_t begin = header.find("\nstruct Settings {");
  const std::string body = header.substr(begin, header.find("\n};", begin) - begin);
  std::istringstream lines(body);
  const std::regex member("  [a-zA-Z_:<>, ]+ ([a-z_]+)( = [^;]+|[{][^;]+[}])?;.*");
  std::vector<std::string> names;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, member)) names.push_back(match[1]);
  }
  return names;
}

TEST(SettingTableTest, EveryMemberCrossesTheBoundary) {
  std::vector<std::string> visited;
  Settings none;
  header::VisitSettings([&](std::string_view name, auto&) { visited.emplace_back(name); }, none);
  EXPECT_EQ(visited, MembersOfHeader())
      << "add the member to VisitSettings() in ranklog/settings.h";
}

// Changes a setting of any type to a value that no default has.
struct Changer {
  void operator()(std::string_view name, std::string& text) const { text = name; }
  void operator()(std::string_view name, std::vector<std::string>& list) const {
    list = {std::string(name), "", "a,b"};
  }
  void operator()(std::string_view, std::map<std::string, std::string>& map) const {
    map = {{"A.B", "1"}, {"C", ""}};
  }
  void operator()(std::string_view,
                  std::map<std::string, std::map<std::string, std::string>>& map) const {
    map = {{"wandb", {{"a.b", "1"}, {"c", ""}}}, {"x", {{"", "2"}}}};
  }
  void operator()(std::string_view, bool& flag) const { flag = !flag; }
  void operator()(std::string_view, size_t& number) const { number = SIZE_MAX; }
  void operator()(std::string_view, std::optional<int>& number) const { number = -7; }
  void operator()(std::string_view, std::chrono::milliseconds& time) const {
    time *= -1;
    --time;
  }
  void operator()(std::string_view, LogStrategy& strategy) const {
    strategy = static_cast<LogStrategy>(77);
  }
};

TEST(SettingTableTest, SettingsCrossTheBoundaryUnchanged) {
  Settings settings;
  header::VisitSettings(Changer(), settings);
  const Settings there_and_back = header::FromC(header::ToC(settings).get());
  header::VisitSettings(
      [](std::string_view name, const auto& before, const auto& after, const auto& otherwise) {
        EXPECT_EQ(before, after) << name;
        EXPECT_NE(after, otherwise) << name;
      },
      settings, there_and_back, *std::make_unique<const Settings>());
}

}  // namespace
}  // namespace ranklog
