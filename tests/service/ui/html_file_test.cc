#include "service/ui/html_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "service/ui/assets.h"
#include "tests/service/storage/store_fixture.h"

namespace ranklog::ui {
namespace {

using ::ranklog::testing::AppendItem;
using ::ranklog::testing::Dense;
using ::ranklog::testing::StoreTest;
using ::testing::HasSubstr;
using ::testing::Not;

class HtmlFileTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    Do([&] {
      const model::Stream stream = Attach(0);
      run_ = stream.run;
      EXPECT_OK(store_->DefineRunShape(run_, 1, std::vector<std::string>{"</script><b>"}));
      EXPECT_OK(store_->AppendRunRows(run_, Dense(0, 3, 1, 1)));
      model::Item config;
      config.object = {{"note", "<!--<script>\xff"}};
      EXPECT_OK(AppendItem(*store_, stream.id, config));
    });
    auto html = HtmlFile({dir_.path(), nullptr}, run_);
    ASSERT_OK(html);
    html_ = *html;
  }

  int64_t run_ = 0;
  std::string html_;
};

TEST_F(HtmlFileTest, ContainsTheDataOfEveryView) {
  const size_t begin = html_.find("id=\"data\">") + 10;
  const auto data =
      nlohmann::json::parse(html_.substr(begin, html_.find("</script>", begin) - begin));
  EXPECT_EQ(data["curves"]["curves"]["</script><b>"]["v"].size(), 3u);
  EXPECT_EQ(data["run"]["config"]["note"], "<!--<script>\xef\xbf\xbd");
  for (const char* const part :
       {"summary", "system", "ranks", "console", "delivery", "artifacts"}) {
    EXPECT_TRUE(data[part].is_object()) << part;
  }
}

TEST_F(HtmlFileTest, TextsOfUsersCannotEndTheScript) {
  EXPECT_THAT(html_, Not(HasSubstr("</script><b>")));
  EXPECT_THAT(html_, Not(HasSubstr("<!--<script>")));
}

TEST_F(HtmlFileTest, LoadsNothing) {
  for (const char* const text : {"src=", "href=\"style", "\nimport ", "\nexport ", "@import"}) {
    EXPECT_THAT(html_, Not(HasSubstr(text))) << text;
  }
  EXPECT_THAT(html_, HasSubstr("Permission is hereby granted")) << "the licence of the charts";
}

TEST(AssetsTest, ImportsOfModulesAreEmbedded) {
  for (const Asset& asset : Assets()) {
    const std::string text(asset.content);
    for (size_t at = 0; (at = text.find("} from \"./", at)) != std::string::npos; ++at) {
      const size_t begin = at + 10;
      const std::string name = text.substr(begin, text.find('"', begin) - begin);
      EXPECT_NE(FindAsset(name), nullptr) << asset.name << " imports " << name;
    }
  }
}

}  // namespace
}  // namespace ranklog::ui
