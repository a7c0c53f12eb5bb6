#ifndef RANKLOG_MEDIA_H_
#define RANKLOG_MEDIA_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "ranklog/c.h"
#include "ranklog/compiler.h"
#include "ranklog/span.h"
#include "ranklog/value.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// Images, tables and HTML as values of a row; see Run::Log() for rows with media.
//
//   run.Log({{"samples", ranklog::Image(png_bytes, "a caption")}, {"loss", 0.3}}, step);
//   run.Log({{"predictions", ranklog::Table({"id", "label"}, {{1, "cat"}, {2, "dog"}})}});
//   run.Log({{"report", ranklog::Html("<b>done</b>")}});
//
// Each class copies what it is given, and throws std::bad_alloc without memory. What is wrong with
// the content is found when it is logged.
// Source: wandb/sdk/data_types/ of wandb 0.31.0.

inline constexpr size_t kMaxMediaBytes = 64 << 20;  // of a file: it is written during the call
inline constexpr size_t kMaxImages = 108;           // in a list: W&B's SDK sends no more
inline constexpr size_t kMaxTableRows = 10'000;     // W&B's SDK writes no more to a run's file

// A picture: a PNG file, at most kMaxMediaBytes.
class Image {
 public:
  // `png`: the bytes of the file, which has the width and the height. `caption`: UTF-8; empty: none.
  explicit Image(std::string_view png, std::string_view caption = {})
      : parts_(Value::List({png, caption})) {}
  explicit Image(Span<const unsigned char> png, std::string_view caption = {})
      : Image(std::string_view(reinterpret_cast<const char*>(png.data()), png.size()), caption) {}

 private:
  friend class Images;
  friend struct MediaMetric;
  Value parts_;
};

// Several images under one key. W&B shows them side by side, all in the size of the first one.
class Images {
 public:
  // Of more than kMaxImages, the rest is left out, and counted in lost_values.
  explicit Images(std::vector<Image> images) {
    std::vector<Value> list;
    list.reserve(images.size());
    for (Image& image : images) list.push_back(std::move(image.parts_));
    images_ = Value::List(std::move(list));
  }

 private:
  friend struct MediaMetric;
  Value images_;
};

// A table, which W&B can sort, filter and group.
class Table {
 public:
  // Each row has one value for each column. Of more than kMaxTableRows, the rest is left out, and
  // counted in lost_values. At most kMaxMediaBytes of JSON.
  Table(const std::vector<std::string>& columns, std::vector<std::vector<Value>> rows) {
    std::vector<Value> list;
    list.reserve(rows.size());
    for (std::vector<Value>& row : rows) list.push_back(Value::List(std::move(row)));
    parts_ = Value::List({Value::List(std::vector<Value>(columns.begin(), columns.end())),
                          Value::List(std::move(list))});
  }

 private:
  friend struct MediaMetric;
  Value parts_;
};

// A text that W&B shows as a web page. It is sent as it is; W&B's SDK adds a style sheet to it.
class Html {
 public:
  explicit Html(std::string_view text) : text_(text) {}  // UTF-8, at most kMaxMediaBytes

 private:
  friend struct MediaMetric;
  Value text_;
};

// One metric of a row with media: a key, and a value that Metric takes, too, or one of the classes
// above. Like a Metric, it refers to both.
struct MediaMetric : Metric {
  using Metric::Metric;
  MediaMetric(std::string_view metric_key, const Image& image) noexcept
      : MediaMetric(metric_key, image.parts_, RANKLOG_IMAGE) {}
  MediaMetric(std::string_view metric_key, const Images& images) noexcept
      : MediaMetric(metric_key, images.images_, RANKLOG_IMAGES) {}
  MediaMetric(std::string_view metric_key, const Table& table) noexcept
      : MediaMetric(metric_key, table.parts_, RANKLOG_TABLE) {}
  MediaMetric(std::string_view metric_key, const Html& html) noexcept
      : MediaMetric(metric_key, html.text_, RANKLOG_HTML) {}

 private:
  MediaMetric(std::string_view metric_key, const Value& parts, ranklog_kind media) noexcept
      : Metric(metric_key, parts) {
    kind = media;
  }
};
static_assert(sizeof(MediaMetric) == sizeof(ranklog_field) &&
                  std::is_trivially_copyable_v<MediaMetric>,
              "a list of metrics is passed as a list of ranklog_field");

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_MEDIA_H_
