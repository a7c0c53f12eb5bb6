#include "trainer/checkpoint/safetensors.h"

#include <ATen/ATen.h>
#include <sys/stat.h>
#include <zlib.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "tests/support/absent.h"
#include "tests/support/child_process.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::trainer {
namespace {

using nlohmann::json;
using ::ranklog::testing::FileContent;
using ::ranklog::testing::Finished;
using ::ranklog::testing::RunToEnd;
using ::ranklog::testing::StatusIs;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class SafeTensorsTest : public ::testing::Test {
 protected:
  // A tensor of each type, with odd sizes, so that the order in the file matters.
  static SafeTensors Example() {
    SafeTensors example;
    example.metadata = {{"step", "7"}, {"text", "\"quoted\" and ü"}};
    example.tensors["weight"] = at::arange(6, at::kFloat).view({2, 3}) / 7;
    example.tensors["transposed"] = (at::arange(6, at::kDouble).view({2, 3}) / 3).t();
    example.tensors["scalar"] = at::tensor(int64_t{1} << 40, at::kLong).squeeze();
    example.tensors["empty"] = at::empty({0, 4}, at::kFloat);
    example.tensors["bytes"] = at::arange(5, at::kByte);
    example.tensors["half"] = at::ones({3}, at::kHalf);
    example.tensors["brain"] = at::ones({3}, at::kBFloat16) / 3;
    example.tensors["flags"] = at::ones({3}, at::kBool);
    for (const auto type : {at::kInt, at::kShort, at::kChar}) {
      example.tensors[c10::toString(type)] = at::full({3}, -2, type);
    }
    return example;
  }
  static void ExpectEqual(const SafeTensors& got, const SafeTensors& expected) {
    EXPECT_EQ(got.metadata, expected.metadata);
    ASSERT_EQ(got.tensors.size(), expected.tensors.size());
    for (const auto& [name, tensor] : expected.tensors) {
      const auto found = got.tensors.find(name);
      ASSERT_NE(found, got.tensors.end()) << name;
      EXPECT_EQ(found->second.scalar_type(), tensor.scalar_type()) << name;
      EXPECT_TRUE(at::equal(found->second, tensor)) << name;
    }
  }

  // Reads a file with this header and these data.
  absl::Status ReadBytes(const std::string& header, const std::string& data) {
    const uint64_t length = header.size();
    std::ofstream file(path_, std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof(length)) << header << data;
    file.close();
    return ReadSafeTensors(path_).status();
  }

  const ranklog::testing::TempDir dir_;
  const std::string path_ = dir_.File("a.safetensors");
};

TEST_F(SafeTensorsTest, ReadsBackWhatItWrote) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  ASSERT_OK_AND_ASSIGN(const SafeTensors got, ReadSafeTensors(path_));
  ExpectEqual(got, Example());
}

TEST_F(SafeTensorsTest, EmptyContentRoundTrips) {
  ASSERT_OK(WriteSafeTensors(path_, {}));
  ASSERT_OK_AND_ASSIGN(const SafeTensors got, ReadSafeTensors(path_));
  ExpectEqual(got, {});
}

TEST_F(SafeTensorsTest, LastFourBytesAreChecksum) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  const std::string file = FileContent(path_);
  uint32_t sum = 0;
  std::memcpy(&sum, file.data() + file.size() - 4, 4);
  EXPECT_EQ(sum, crc32(0, reinterpret_cast<const Bytef*>(file.data()), file.size() - 4));
}

TEST_F(SafeTensorsTest, EachTensorIsAligned) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  const std::string file = FileContent(path_);
  uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const json header = json::parse(file.substr(8, length));
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__" || name == "crc32") continue;
    EXPECT_EQ(entry["data_offsets"][0].get<size_t>() % Example().tensors[name].element_size(), 0u)
        << name;
  }
}

TEST_F(SafeTensorsTest, TruncationIsDataLoss) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  for (auto size = std::filesystem::file_size(path_); size-- > 0;) {
    std::filesystem::resize_file(path_, size);
    EXPECT_THAT(ReadSafeTensors(path_).status(),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr(path_)))
        << size;
  }
}

TEST_F(SafeTensorsTest, DetectsAnyChangedByte) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  const std::string file = FileContent(path_);
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int flip : {1, 128}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ flip);
      std::ofstream(path_, std::ios::binary) << changed;
      const absl::StatusOr<SafeTensors> read = ReadSafeTensors(path_);
      if (read.ok() && !read->verified) continue;  // without a tensor "crc32"
      EXPECT_THAT(read.status().code(),
                  AnyOf(absl::StatusCode::kDataLoss, absl::StatusCode::kInvalidArgument))
          << i;
    }
  }
}

TEST_F(SafeTensorsTest, DetectsTrailingBytes) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  std::ofstream(path_, std::ios::binary | std::ios::app) << "x";
  EXPECT_THAT(ReadSafeTensors(path_).status(), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(SafeTensorsTest, ReadsForeignFileWithoutChecksum) {
  EXPECT_OK(ReadBytes(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})", "xyz"));
  EXPECT_OK(ReadBytes(R"({"__metadata__":{},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}})",
                      "wxyz"));
}

TEST_F(SafeTensorsTest, RejectsInvalidHeaders) {
  for (const char* header : {
           "",
           "[]",
           "{",
           R"({"a":1})",
           R"({"a":{"dtype":"U8","shape":[3]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3],"more":1}})",
           R"({"a":{"dtype":"F8","shape":[3],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":8,"shape":[3],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":3,"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":[-3],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":[3.0],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[3,0]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,-3]}})",
           // Products that overflow to a matching size.
           R"({"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}})",
           R"({"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})",
           R"({"a":{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
           R"("a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}})",
           R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
           R"({"__metadata__":{"a":1}})",
           R"({"__metadata__":"a"})",
       }) {
    EXPECT_THAT(ReadBytes(header, "xyz"),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(path_)))
        << header;
  }
}

TEST_F(SafeTensorsTest, RejectsSizesBeyondEndOfFile) {
  EXPECT_THAT(
      ReadBytes(R"({"a":{"dtype":"U8","shape":[9999999999],"data_offsets":[0,9999999999]}})",
                "xyz"),
      StatusIs(absl::StatusCode::kDataLoss));
  std::ofstream(path_, std::ios::binary) << std::string(8, '\xff') << "{}";
  EXPECT_THAT(ReadSafeTensors(path_).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(SafeTensorsTest, UnreadableFileErrorNamesPath) {
  EXPECT_THAT(ReadSafeTensors(dir_.File("none")).status(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr(dir_.File("none"))));
  EXPECT_THAT(ReadSafeTensors(dir_.path()).status(), Not(StatusIs(absl::StatusCode::kOk)));
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);  // a plain open() waits for a writer
  EXPECT_THAT(ReadSafeTensors(path_).status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                                        HasSubstr(path_ + ": it is not a file")));
}

TEST_F(SafeTensorsTest, FailedWriteKeepsOldFile) {
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  SafeTensors other;
  other.tensors["a"] = at::zeros({1 << 16});
  std::filesystem::create_symlink("/dev/full", path_ + ".tmp");
  EXPECT_THAT(WriteSafeTensors(path_, other), StatusIs(absl::StatusCode::kResourceExhausted));
  ASSERT_OK_AND_ASSIGN(const SafeTensors got, ReadSafeTensors(path_));
  ExpectEqual(got, Example());
}

TEST_F(SafeTensorsTest, RefusesUnsupportedTypesAndNames) {
  SafeTensors wrong;
  wrong.tensors["a"] = at::zeros({1}, at::kComplexFloat);
  EXPECT_THAT(WriteSafeTensors(path_, wrong), StatusIs(absl::StatusCode::kInvalidArgument));
  wrong.tensors = {{"crc32", at::zeros({1})}};
  EXPECT_THAT(WriteSafeTensors(path_, wrong), StatusIs(absl::StatusCode::kInvalidArgument));
}

// ---- Independent readers. Each prints the contents as JSON. ----

// Type, shape and sum of each tensor, as the script prints them.
std::map<std::string, json> Summary(const SafeTensors& content) {
  std::map<std::string, json> summary;
  for (const auto& [name, tensor] : content.tensors) {
    summary[name] = {{"shape", tensor.sizes().vec()},
                     {"sum", tensor.to(at::kDouble).sum().item<double>()}};
  }
  return summary;
}

void ExpectReadBy(const std::string& python, const std::string& reader, const std::string& path,
                  const SafeTensors& expected) {
  const Finished read = RunToEnd({python, READ_SAFETENSORS, reader, path});
  ASSERT_EQ(read.code, 0) << read.output;
  const json got = json::parse(read.output);
  EXPECT_EQ((got["metadata"].get<std::map<std::string, std::string>>()), expected.metadata);
  EXPECT_EQ((got["tensors"].get<std::map<std::string, json>>()), Summary(expected));
}

TEST_F(SafeTensorsTest, OfficialPythonPackageReadsIt) {  // S30
  const Finished made =
      RunToEnd({VENV, "safetensors-0.6.2_numpy-2.3.3", "safetensors==0.6.2", "numpy==2.3.3"}, {},
               absl::Minutes(3));
  const std::vector<std::string> lines =
      absl::StrSplit(absl::StripAsciiWhitespace(made.output), '\n');
  SKIP_WITHOUT(made.code != 77, "safetensors for Python");
  ASSERT_EQ(made.code, 0) << made.output;
  SafeTensors example = Example();
  example.tensors.erase("brain");  // NumPy has no such type
  ASSERT_OK(WriteSafeTensors(path_, example));
  ExpectReadBy(lines.back(), "safetensors", path_, example);
}

TEST_F(SafeTensorsTest, PyTorchScriptReadsIt) {
  SKIP_WITHOUT(RunToEnd({"/usr/bin/python3", "-c", "import torch"}).code == 0,
               "PyTorch (package python3-torch)");
  ASSERT_OK(WriteSafeTensors(path_, Example()));
  ExpectReadBy("/usr/bin/python3", "torch", path_, Example());
}

}  // namespace
}  // namespace ranklog::trainer
