#include "trainer/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/base/durable_file.h"

namespace ranklog::trainer {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format's numbers are little-endian");

using nlohmann::json;

constexpr size_t kLengthBytes = 8;          // of the header, before it
constexpr uint64_t kMaxHeader = 100 << 20;  // the format's limit, so that no reader allocates more
constexpr uint64_t kMaxElements = uint64_t{1} << 48;  // beyond any memory; products do not overflow
constexpr size_t kReadBytes = 64 << 20;  // at once; the checksum reads them from a cache
constexpr char kMetadata[] = "__metadata__";
constexpr char kChecksum[] = "crc32";

struct DType {
  const char* name;
  at::ScalarType type;
};
constexpr std::array<DType, 10> kTypes = {{{"F64", at::kDouble},
                                           {"F32", at::kFloat},
                                           {"F16", at::kHalf},
                                           {"BF16", at::kBFloat16},
                                           {"I64", at::kLong},
                                           {"I32", at::kInt},
                                           {"I16", at::kShort},
                                           {"I8", at::kChar},
                                           {"U8", at::kByte},
                                           {"BOOL", at::kBool}}};

// The entry of a tensor in the header.
struct Entry {
  std::string name;
  at::ScalarType type = at::kByte;
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, counted from the header's end
};

uint32_t AddToChecksum(uint32_t sum, const void* bytes, size_t size) {
  if (size == 0) return sum;  // an empty tensor has no address; zlib would then restart the sum
  return static_cast<uint32_t>(crc32_z(sum, static_cast<const Bytef*>(bytes), size));
}

// Appends to a file, with a checksum of the written bytes.
struct SummedWriter {
  DurableFile file;
  uint32_t sum = 0;

  absl::Status Append(const void* bytes, size_t size) {
    sum = AddToChecksum(sum, bytes, size);
    return file.Append(bytes, size);
  }
};

// Reads a file from start to end, with a checksum of the read bytes.
class SummedReader {
 public:
  explicit SummedReader(std::string path) : path_(std::move(path)) {}
  ~SummedReader() {
    if (fd_ >= 0) close(fd_);
  }
  SummedReader(const SummedReader&) = delete;
  SummedReader& operator=(const SummedReader&) = delete;

  absl::Status Open() {
    fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO may have no writer
    struct stat stat = {};
    if (fd_ < 0 || fstat(fd_, &stat) != 0) return Failure(errno);
    if (S_ISDIR(stat.st_mode)) return NoFormat("it is a directory");
    if (!S_ISREG(stat.st_mode)) return NoFormat("it is not a file");
    size_ = static_cast<uint64_t>(stat.st_size);
    return absl::OkStatus();
  }

  absl::Status Read(void* into, size_t size) {
    char* next = static_cast<char*>(into);
    while (size > 0) {
      const ssize_t got = read(fd_, next, std::min(size, kReadBytes));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return Failure(errno);
      if (got == 0) return Damaged("it was truncated while it was read");
      sum_ = AddToChecksum(sum_, next, static_cast<size_t>(got));
      next += got;
      size -= static_cast<size_t>(got);
    }
    return absl::OkStatus();
  }

  uint64_t size() const { return size_; }
  uint32_t sum() const { return sum_; }

  absl::Status Damaged(const std::string& why) const {
    return absl::DataLossError(absl::StrCat("cannot read ", path_, ": ", why));
  }
  absl::Status NoFormat(const std::string& why) const {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path_, ": ", why));
  }

 private:
  absl::Status Failure(int error) const {
    return absl::ErrnoToStatus(error, absl::StrCat("cannot read ", path_));
  }

  const std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  uint32_t sum_ = 0;
};

// The tensors' order in the file: large elements first, so that the offset of each tensor is a
// multiple of its element's size.
absl::StatusOr<std::vector<Entry>> Layout(const SafeTensors& content) {
  std::vector<Entry> entries;
  for (const auto& [name, tensor] : content.tensors) {
    if (name == kMetadata || name == kChecksum) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot write tensor ", name, ": the name is reserved"));
    }
    entries.push_back({.name = name, .type = tensor.scalar_type(), .shape = tensor.sizes().vec()});
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return c10::elementSize(a.type) > c10::elementSize(b.type);
  });
  entries.push_back({.name = kChecksum, .type = at::kByte, .shape = {sizeof(uint32_t)}});
  uint64_t end = 0;
  for (Entry& entry : entries) {
    entry.begin = end;
    end += c10::elementSize(entry.type);
    for (const int64_t size : entry.shape) {
      end = entry.begin + (end - entry.begin) * static_cast<uint64_t>(size);
    }
    entry.end = end;
  }
  return entries;
}

absl::StatusOr<std::string> Header(const std::vector<Entry>& entries,
                                   const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header[kMetadata] = metadata;
  for (const Entry& entry : entries) {
    const auto type = std::find_if(kTypes.begin(), kTypes.end(),
                                   [&](const DType& type) { return type.type == entry.type; });
    if (type == kTypes.end()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot write tensor ", entry.name,
                                                     ": safetensors does not support its type, ",
                                                     c10::toString(entry.type)));
    }
    header[entry.name] = {
        {"dtype", type->name}, {"shape", entry.shape}, {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = header.dump(-1, ' ', false, json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the first tensor's offset is a multiple of 8, too
  return text;
}

// The header as JSON; null if it is not JSON, or has a key twice.
json ParseHeader(const std::string& text) {
  std::set<std::string> names;
  bool twice = false;
  json header = json::parse(
      text,
      [&](int depth, json::parse_event_t event, json& value) {
        if (depth == 1 && event == json::parse_event_t::key) {
          twice = !names.insert(value.get<std::string>()).second || twice;
        }
        return true;
      },
      /*allow_exceptions=*/false);
  return twice || !header.is_object() ? json() : header;
}

// The header's entry for `name`; nullopt if it is not valid.
std::optional<Entry> ParseEntry(const std::string& name, const json& value) {
  if (!value.is_object() || value.size() != 3) return std::nullopt;
  const auto type = value.find("dtype"), shape = value.find("shape"),
             offsets = value.find("data_offsets");
  if (type == value.end() || shape == value.end() || offsets == value.end()) return std::nullopt;
  const auto known = std::find_if(kTypes.begin(), kTypes.end(),
                                  [&](const DType& known) { return *type == known.name; });
  if (known == kTypes.end() || !shape->is_array() || !offsets->is_array() || offsets->size() != 2 ||
      !(*offsets)[0].is_number_unsigned() || !(*offsets)[1].is_number_unsigned()) {
    return std::nullopt;
  }
  Entry entry{.name = name,
              .type = known->type,
              .shape = {},
              .begin = (*offsets)[0].get<uint64_t>(),
              .end = (*offsets)[1].get<uint64_t>()};
  uint64_t elements = 1, bound = 1;  // the latter without sizes of 0
  for (const json& size : *shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > kMaxElements) return std::nullopt;
    elements *= size.get<uint64_t>();
    if (size != 0 && bound > kMaxElements / size.get<uint64_t>()) return std::nullopt;
    if (size != 0) bound *= size.get<uint64_t>();
    entry.shape.push_back(size.get<int64_t>());
  }
  if (entry.begin > entry.end || entry.end - entry.begin != elements * c10::elementSize(entry.type))
    return std::nullopt;
  return entry;
}

// The header's entries by their place in the file. They must cover `data_size` bytes without gaps.
absl::StatusOr<std::vector<Entry>> ReadHeader(SummedReader& file,
                                              std::map<std::string, std::string>& metadata) {
  uint64_t length = 0;
  if (file.size() < kLengthBytes) return file.Damaged("it is shorter than any safetensors file");
  if (absl::Status status = file.Read(&length, kLengthBytes); !status.ok()) return status;
  if (length > kMaxHeader) return file.NoFormat("it is not a safetensors file");
  if (length > file.size() - kLengthBytes) return file.Damaged("it ends within its header");
  std::string text(length, '\0');
  if (absl::Status status = file.Read(text.data(), text.size()); !status.ok()) return status;
  const json header = ParseHeader(text);
  if (header.is_null()) return file.NoFormat("its header is not a safetensors header");

  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name != kMetadata) {
      std::optional<Entry> entry = ParseEntry(name, value);
      if (!entry) return file.NoFormat(absl::StrCat("its header has no valid entry for ", name));
      entries.push_back(*std::move(entry));
      continue;
    }
    if (!value.is_object())
      return file.NoFormat("its metadata contains a value that is not a text");
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string())
        return file.NoFormat("its metadata contains a value that is not a text");
      metadata[key] = text.get<std::string>();
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t end = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != end) return file.NoFormat("its tensors overlap, or leave a gap");
    end = entry.end;
  }
  const uint64_t data_size = file.size() - kLengthBytes - length;
  if (end != data_size) {
    return file.Damaged(absl::StrCat("its tensors need ", end, " bytes, but it has ", data_size));
  }
  return entries;
}

}  // namespace

absl::Status WriteSafeTensors(const std::string& path, const SafeTensors& content) {
  absl::StatusOr<std::vector<Entry>> entries = Layout(content);
  if (!entries.ok()) return entries.status();
  const absl::StatusOr<std::string> header = Header(*entries, content.metadata);
  if (!header.ok()) return header.status();
  absl::StatusOr<DurableFile> file = DurableFile::Create(path);
  if (!file.ok()) return file.status();

  SummedWriter writer{.file = *std::move(file)};
  const uint64_t length = header->size();
  if (absl::Status status = writer.Append(&length, kLengthBytes); !status.ok()) return status;
  if (absl::Status status = writer.Append(header->data(), length); !status.ok()) return status;
  entries->pop_back();  // the checksum of all bytes before it
  for (const Entry& entry : *entries) {
    const at::Tensor tensor = content.tensors.at(entry.name).detach().cpu().contiguous();
    absl::Status status = writer.Append(tensor.data_ptr(), entry.end - entry.begin);
    if (!status.ok()) return status;
  }
  const uint32_t sum = writer.sum;
  if (absl::Status status = writer.Append(&sum, sizeof(sum)); !status.ok()) return status;
  return writer.file.Commit();
}

absl::StatusOr<SafeTensors> ReadSafeTensors(const std::string& path) {
  SummedReader file(path);
  if (absl::Status status = file.Open(); !status.ok()) return status;
  SafeTensors content;
  absl::StatusOr<std::vector<Entry>> entries = ReadHeader(file, content.metadata);
  if (!entries.ok()) return entries.status();
  for (const Entry& entry : *entries) {
    const uint32_t expected = file.sum();
    at::Tensor tensor = at::empty(entry.shape, entry.type);
    absl::Status status = file.Read(tensor.data_ptr(), entry.end - entry.begin);
    if (!status.ok()) return status;
    if (entry.name != kChecksum) {
      content.tensors.emplace(entry.name, std::move(tensor));
    } else if (entry.end - entry.begin != sizeof(expected) || &entry != &entries->back() ||
               std::memcmp(tensor.data_ptr(), &expected, sizeof(expected)) != 0) {
      return file.Damaged("its checksum is wrong: it was changed since it was written");
    } else {
      content.verified = true;
    }
  }
  return content;
}

absl::StatusOr<std::map<std::string, std::string>> ReadMetadata(const std::string& path) {
  SummedReader file(path);
  if (absl::Status status = file.Open(); !status.ok()) return status;
  std::map<std::string, std::string> metadata;
  if (absl::Status status = ReadHeader(file, metadata).status(); !status.ok()) return status;
  return metadata;
}

}  // namespace ranklog::trainer
