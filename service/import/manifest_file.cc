#include "service/import/manifest_file.h"

#include <zlib.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/base/text/printable.h"

namespace ranklog::imports {
namespace {

constexpr size_t kMostBytes = size_t{1} << 30;  // several million files
constexpr unsigned kChunk = 1 << 16;

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};

}  // namespace

absl::Status ReadManifestFile(wandb_internal::ArtifactManifest* manifest) {
  const std::string& path = manifest->manifest_file_path();
  if (path.empty()) return absl::OkStatus();
  const std::unique_ptr<gzFile_s, Close> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) {
    return absl::NotFoundError(absl::StrCat("cannot read its list of files, ", Printable(path)));
  }
  const absl::Status damaged =
      absl::DataLossError(absl::StrCat("its list of files is damaged: ", Printable(path)));
  std::string text;
  while (text.size() < kMostBytes) {
    const size_t size = text.size();
    text.resize(size + kChunk);
    const int read = gzread(file.get(), text.data() + size, kChunk);
    if (read < 0) return damaged;
    text.resize(size + static_cast<size_t>(read));
    if (read == 0) break;
  }
  int error = Z_OK;
  gzerror(file.get(), &error);  // also of a file that is cut off
  if (error != Z_OK || text.size() >= kMostBytes) return damaged;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const auto entry = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                             /*allow_exceptions=*/false);
    if (!entry.is_object()) return damaged;
    const auto member = [&entry](const char* name) {
      const auto found = entry.find(name);
      const bool is_text = found != entry.end() && found->is_string();
      return is_text ? found->get<std::string>() : std::string();
    };
    wandb_internal::ArtifactManifestEntry& added = *manifest->add_contents();
    added.set_path(member("path"));
    added.set_ref(member("ref"));
    added.set_local_path(member("local_path"));
    if (added.path().empty()) return damaged;
  }
  return absl::OkStatus();
}

}  // namespace ranklog::imports
