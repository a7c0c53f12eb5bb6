#include "client/content/media.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/base/hash/sha256.h"
#include "client/base/text/fields.h"
#include "client/base/text/json.h"
#include "client/base/text/keys.h"
#include "ranklog/media.h"

namespace ranklog::internal {
namespace {

constexpr size_t kHashDigits = 20;  // of 64, in the name of a file

absl::Status Wrong(const std::string& why) { return absl::InvalidArgumentError(why); }

absl::Status CheckSize(size_t bytes) {
  if (bytes <= kMaxMediaBytes) return absl::OkStatus();
  return Wrong(absl::StrCat("its file has ", bytes, " bytes, and at most ", kMaxMediaBytes >> 20,
                            " MiB can be logged in a row; upload a larger one with Save()"));
}

// Slashes make directories. Other parts of the path must stay below the folder.
std::string PathOf(const std::string& folder, std::string_view key) {
  std::string path = "media/" + folder;
  for (size_t at = 0; at <= key.size();) {
    const size_t end = std::min(key.find('/', at), key.size());
    std::string part(key.substr(at, end - at));
    if (part == "." || part == "..") part.assign(part.size(), '_');
    // The last part may be empty: the step and the hash follow.
    if (!part.empty() || end == key.size()) absl::StrAppend(&path, "/", part);
    at = end + 1;
  }
  return path;
}

// A file of a medium, and the fields that every entry with one file has.
struct File {
  MediaFile file;
  std::vector<Value::Field> fields;
};

File MakeFile(const char* type, const char* folder, const char* ending, const ranklog_field& field,
              int64_t step, std::string bytes) {
  const std::string hash = Sha256(bytes);
  std::string path = absl::StrCat(PathOf(folder, KeyOf(field)), "_", step, "_",
                                  hash.substr(0, kHashDigits), ending);
  std::vector<Value::Field> fields = {
      {"_type", type}, {"path", path}, {"sha256", hash}, {"size", bytes.size()}};
  return {{std::move(path), std::move(bytes)}, std::move(fields)};
}

Media OneFile(File made) {
  Media media;
  media.entry = Value::Object(std::move(made.fields));
  media.files.push_back(std::move(made.file));
  return media;
}

// A PNG file begins with a signature and the chunk IHDR, which begins with the width and the height.
// Source: PNG specification, third edition, 5.2 and 11.2.1.
struct Png {
  std::string_view bytes;
  std::string_view caption;  // may be empty
  uint32_t width = 0;
  uint32_t height = 0;
};

uint32_t BigEndian(std::string_view four) {
  uint32_t number = 0;
  for (const char byte : four) number = number << 8 | static_cast<unsigned char>(byte);
  return number;
}

absl::StatusOr<Png> ReadPng(const ranklog_field& image) {
  constexpr std::string_view kBegin("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
  constexpr size_t kHeader = kBegin.size() + 8;
  const std::span<const ranklog_field> parts = ItemsOf(image);
  if (parts.empty() || parts.size() > 2 || parts.front().kind != RANKLOG_TEXT ||
      parts.back().kind != RANKLOG_TEXT) {
    return Wrong("an image must have the bytes of a PNG file, and may have a caption");
  }
  Png png;
  png.bytes = FieldText(parts[0]);
  if (parts.size() == 2) png.caption = FieldText(parts[1]);
  if (png.bytes.size() < kHeader || png.bytes.substr(0, kBegin.size()) != kBegin) {
    return Wrong("an image is not a PNG file");
  }
  png.width = BigEndian(png.bytes.substr(kBegin.size(), 4));
  png.height = BigEndian(png.bytes.substr(kBegin.size() + 4, 4));
  if (!IsUtf8(png.caption)) return Wrong("the caption of an image is not UTF-8");
  if (absl::Status status = CheckSize(png.bytes.size()); !status.ok()) return status;
  return png;
}

File MakeImageFile(const Png& png, const ranklog_field& field, int64_t step) {
  File made = MakeFile("image-file", "images", ".png", field, step, std::string(png.bytes));
  made.fields.emplace_back("format", "png");
  made.fields.emplace_back("width", png.width);
  made.fields.emplace_back("height", png.height);
  if (!png.caption.empty()) made.fields.emplace_back("caption", png.caption);
  return made;
}

absl::StatusOr<Media> MakeImages(const ranklog_field& field, int64_t step) {
  Media media;
  std::span<const ranklog_field> images = ItemsOf(field);
  if (images.empty()) return Wrong("a list of images is empty");
  if (images.size() > kMaxImages) {
    media.left_out = images.size() - kMaxImages;
    media.why = absl::StrCat("a list of images has ", images.size(), ", and only the first ",
                             kMaxImages, " are kept");
    images = images.first(kMaxImages);
  }
  std::vector<Value> paths, captions;
  bool any_caption = false;
  Png first;
  for (const ranklog_field& image : images) {
    const absl::StatusOr<Png> png = ReadPng(image);
    if (!png.ok()) return png.status();
    if (paths.empty()) first = *png;
    File made = MakeImageFile(*png, field, step);
    paths.emplace_back(made.file.path);
    captions.push_back(png->caption.empty() ? Value() : Value(png->caption));
    any_caption |= !png->caption.empty();
    const bool is_known =
        std::any_of(media.files.begin(), media.files.end(),
                    [&](const auto& file) { return file.path == made.file.path; });
    if (!is_known) media.files.push_back(std::move(made.file));
  }
  std::vector<Value::Field> fields = {
      {"_type", "images/separated"}, {"width", first.width},
      {"height", first.height},      {"format", "png"},
      {"count", paths.size()},       {"filenames", Value::List(paths)}};
  if (any_caption) fields.emplace_back("captions", Value::List(std::move(captions)));
  media.entry = Value::Object(std::move(fields));
  return media;
}

absl::StatusOr<Media> MakeTable(const ranklog_field& field, int64_t step) {
  const std::span<const ranklog_field> parts = ItemsOf(field);
  if (parts.size() != 2 || parts[0].kind != RANKLOG_LIST || parts[1].kind != RANKLOG_LIST) {
    return Wrong("a table must have a list of columns and a list of rows");
  }
  const std::span<const ranklog_field> columns = ItemsOf(parts[0]), rows = ItemsOf(parts[1]);
  const auto is_text = [](const ranklog_field& column) { return column.kind == RANKLOG_TEXT; };
  if (columns.empty() || !std::all_of(columns.begin(), columns.end(), is_text)) {
    return Wrong("a table must have columns, and their names must be texts");
  }
  std::string text = "{\"columns\":";
  std::string error = AppendJson(parts[0], &text);
  absl::StrAppend(&text, ",\"data\":[");
  const size_t kept = std::min(rows.size(), kMaxTableRows);
  for (size_t i = 0; i < kept && error.empty() && text.size() <= kMaxMediaBytes; ++i) {
    if (rows[i].kind != RANKLOG_LIST || ItemsOf(rows[i]).size() != columns.size()) {
      return Wrong(absl::StrCat("row ", i, " of a table must have ", columns.size(),
                                " values, one for each column"));
    }
    if (i > 0) text.push_back(',');
    error = AppendJson(rows[i], &text);
  }
  if (!error.empty()) return Wrong(absl::StrCat("a table has ", error));
  absl::StrAppend(&text, "]}");
  if (absl::Status status = CheckSize(text.size()); !status.ok()) return status;
  File made = MakeFile("table-file", "table", ".table.json", field, step, std::move(text));
  made.fields.emplace_back("ncols", columns.size());
  made.fields.emplace_back("nrows", rows.size());
  made.fields.emplace_back("log_mode", "IMMUTABLE");
  Media media = OneFile(std::move(made));
  if (kept < rows.size()) {
    media.left_out = rows.size() - kept;
    media.why =
        absl::StrCat("a table has ", rows.size(), " rows, and only the first ", kept, " are kept");
  }
  return media;
}

}  // namespace

absl::StatusOr<Media> MakeMedia(const ranklog_field& field, int64_t step) {
  switch (field.kind) {
    case RANKLOG_IMAGE: {
      const absl::StatusOr<Png> png = ReadPng(field);
      if (!png.ok()) return png.status();
      return OneFile(MakeImageFile(*png, field, step));
    }
    case RANKLOG_IMAGES:
      return MakeImages(field, step);
    case RANKLOG_TABLE:
      return MakeTable(field, step);
    case RANKLOG_HTML: {
      const std::string_view text = FieldText(field);
      if (!IsUtf8(text)) return Wrong("the HTML is not UTF-8");
      if (absl::Status status = CheckSize(text.size()); !status.ok()) return status;
      return OneFile(MakeFile("html-file", "html", ".html", field, step, std::string(text)));
    }
    default:
      return Wrong(absl::StrCat("the unknown kind ", field.kind));
  }
}

}  // namespace ranklog::internal
