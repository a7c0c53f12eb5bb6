#include "tests/simulation/staged_upload.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/content/staged_files.h"

namespace ranklog::simulation {
namespace {

v1::Value* Add(v1::Object* object, const char* key) {
  v1::Field* const field = object->add_fields();
  field->set_key(key);
  return field->mutable_value();
}

// Some are sent in parts, and the last part is often a short one.
std::string AnyContent(World& world) {
  constexpr size_t kBytes[] = {0, 1, 5000, 8192, 9000, 12288, 20000};
  std::string content(kBytes[world.Below(std::size(kBytes))], '\0');
  const uint64_t first = world.Below(3);
  for (size_t i = 0; i < content.size(); ++i) {
    content[i] = static_cast<char>('a' + (first + i / 1000) % 26);  // no two parts are equal
  }
  return content;
}

void Stage(const v1::ContentPlace& place, absl::Time now, const std::string& content, bool damaged,
           v1::Object* to) {
  const auto file = internal::StageBytes(place, content);
  if (!file.ok()) abort();
  const std::string path = absl::StrCat(place.dir(), "/", file->name);
  if (damaged &&
      (content.empty() ? unlink(path.c_str())
                       : truncate(path.c_str(), static_cast<off_t>(content.size() / 2)))) {
    abort();
  }
  const timespec times[] = {absl::ToTimespec(now), absl::ToTimespec(now)};
  utimensat(AT_FDCWD, path.c_str(), times, 0);
  Add(to, "file")->set_text(file->name);
  Add(to, "bytes")->set_integer(static_cast<int64_t>(file->bytes));
}

}  // namespace

std::string RingRecord::RunFile(uint64_t number) const {
  return absl::StrCat("f", rank, ".", absl::Hex(incarnation), ".", number);
}

StagedUpload StageUpload(World* world, const v1::ContentPlace& place, absl::Time now,
                         const RingRecord& ring) {
  StagedUpload upload;
  LoggedUpload& logged = upload.logged;
  logged.damaged = world->Chance(0.05);
  const auto stage = [&](const std::string& path, bool damaged, v1::Object* to) {
    Add(to, "path")->set_text(path);
    const std::string& content = logged.files[path] = AnyContent(*world);
    Stage(place, now, content, damaged, to);
  };
  if (world->Chance(0.3)) {
    stage(ring.RunFile(world->Below(2)), logged.damaged, upload.item.mutable_run_file());
    return upload;
  }
  logged.artifact = absl::StrCat("m", world->Below(2));
  logged.id = absl::StrCat("a", absl::Hex(world->Bits()));
  v1::Object* const artifact = upload.item.mutable_artifact();
  Add(artifact, "id")->set_text(logged.id);
  Add(artifact, "name")->set_text(logged.artifact);
  Add(artifact, "type")->set_text("model");
  Add(artifact, "step")->set_integer(1);
  Add(artifact, "aliases")->mutable_list()->add_values()->set_text(logged.id);
  v1::List* const entries = Add(artifact, "entries")->mutable_list();
  if (world->Chance(0.3)) {
    v1::Object* const entry = entries->add_values()->mutable_object();
    Add(entry, "path")->set_text("data");
    Add(entry, "ref")->set_text("s3://bucket/data");
    logged.references["data"] = "s3://bucket/data";
  }
  const uint64_t files = world->Between(1, 3);
  for (uint64_t i = 0; i < files; ++i) {
    stage(absl::StrCat("p", i), logged.damaged && i == 0, entries->add_values()->mutable_object());
  }
  return upload;
}

}  // namespace ranklog::simulation
