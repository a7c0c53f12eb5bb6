#include "service/ui/html_file.h"

#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/status_macros.h"
#include "service/ui/answers.h"
#include "service/ui/assets.h"

namespace ranklog::ui {
namespace {

absl::string_view ContentOf(absl::string_view name) {
  const Asset* const asset = FindAsset(name);
  return asset == nullptr ? "" : asset->content;
}

// A script and the scripts that it imports, as one script. A browser loads no module from a file.
// Each import is on a line of its own, and no two modules use one name.
class Bundle {
 public:
  std::string Of(absl::string_view name) {
    Add(name);
    return std::move(text_);
  }

 private:
  void Add(absl::string_view name) {
    for (const std::string& done : done_) {
      if (absl::string_view(done) == name) return;
    }
    done_.emplace_back(name);
    std::string own;
    for (const absl::string_view line : absl::StrSplit(ContentOf(name), '\n')) {
      if (absl::StartsWith(line, "import ")) {
        const std::vector<absl::string_view> parts = absl::StrSplit(line, '"');
        if (parts.size() == 3) Add(absl::StripPrefix(parts[1], "./"));
      } else {
        absl::StrAppend(&own, absl::StripPrefix(line, "export "), "\n");
      }
    }
    text_ += own;
  }

  std::vector<std::string> done_;
  std::string text_;
};

// JSON that may stand in a script element: nothing in it ends the element.
std::string Harmless(const std::string& json) {
  return absl::StrReplaceAll(json, {{"<", "\\u003c"}});
}

}  // namespace

absl::StatusOr<std::string> HtmlFile(const StoreSource& store, int64_t run) {
  const Stores stores({store});
  Answers answers(&stores);
  const RunKey key{0, run};
  std::string data = absl::StrCat("{\"key\":\"", key.Text(), "\"");
  for (const char* const name :
       {"run", "summary", "curves", "system", "ranks", "console", "delivery", "artifacts"}) {
    const Params params = Params::Parse(absl::StrCat("run=", key.Text()));
    ASSIGN_OR_RETURN(const std::string json, answers.Get(absl::StrCat("/api/", name), params));
    absl::StrAppend(&data, ",\"", name, "\":", json);
  }
  data += "}";
  return absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>Ranklog</title>\n"
      "<!--\n",
      ContentOf("uPlot.LICENSE"), "-->\n<style>", ContentOf("uPlot.css"), ContentOf("style.css"),
      "</style></head><body>\n", "<script type=\"application/json\" id=\"data\">", Harmless(data),
      "</script>\n<script>", ContentOf("uPlot.js"), "</script>\n<script type=\"module\">",
      Bundle().Of("app.js"), "</script></body></html>\n");
}

}  // namespace ranklog::ui
