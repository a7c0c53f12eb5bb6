#include "service/wandb_log/log_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "service/wandb_log/format.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"
#include "wandb/wandb_internal.pb.h"

namespace ranklog::wandb_log {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Different bytes for each size, none of them zero.
std::string Record(size_t size) {
  std::string record(size, '\0');
  for (size_t i = 0; i < size; ++i) record[i] = static_cast<char>(1 + (i * 7 + size) % 255);
  return record;
}

class LogFileTest : public ::testing::Test {
 protected:
  void Write(const std::vector<std::string>& records) {
    std::filesystem::remove(path_);
    auto writer = LogWriter::Create(path_);
    ASSERT_OK(writer);
    for (const std::string& record : records) ASSERT_OK((*writer)->Append(record));
    ASSERT_OK((*writer)->Flush(/*sync=*/false));
    EXPECT_EQ(std::filesystem::file_size(path_), (*writer)->end());
  }
  void WriteBytes(absl::string_view bytes) { std::ofstream(path_, std::ios::binary) << bytes; }
  // The records up to the end or the first error, which goes to `end`.
  std::vector<std::string> Read(absl::Status* end = nullptr, uint64_t from = 0) {
    std::vector<std::string> records;
    auto reader = LogReader::Open(path_, from);
    EXPECT_OK(reader);
    while (true) {
      auto record = (*reader)->Next();
      offset_ = (*reader)->offset();
      torn_ = (*reader)->torn();
      if (end != nullptr) *end = record.status();
      if (!record.ok() || !record->has_value()) return records;
      records.push_back(**record);
    }
  }

  TempDir dir_;
  const std::string path_ = dir_.File("run-x.wandb");
  uint64_t offset_ = 0;  // of the last Read()
  bool torn_ = false;
};

TEST_F(LogFileTest, WritesTheBytesOfTheSdk) {
  wandb_internal::Record record;
  record.set_num(1);
  wandb_internal::VersionInfo* const version = record.mutable_header()->mutable_version_info();
  version->set_producer("0.28.3");
  version->set_min_consumer("0.70.0");
  Write({record.SerializeAsString()});
  EXPECT_EQ(absl::BytesToHexString(FileContent(path_)),
            "3a572642e1be00eb4b650d1700010801aa01120a100a06302e32382e331206302e37302e30");

  Write({""});
  EXPECT_EQ(absl::BytesToHexString(FileContent(path_).substr(kFileHeaderBytes)), "1bdf05a5000001");
}

TEST_F(LogFileTest, BeginsWithAnEmptyChunkInTheLastSevenBytesOfABlock) {
  Write({Record(kBlockBytes - kFileHeaderBytes - 2 * kChunkHeaderBytes), "x"});
  EXPECT_EQ(absl::BytesToHexString(FileContent(path_).substr(kBlockBytes - 7, 14)),
            "a18e0c3c000002" + absl::BytesToHexString(FileContent(path_).substr(kBlockBytes, 7)));
  EXPECT_THAT(Read(), ElementsAre(::testing::SizeIs(kBlockBytes - 21), "x"));
}

TEST_F(LogFileTest, KeepsRecordsOfAllSizesAroundTheEndOfABlock) {
  for (size_t left = 0; left <= 2 * kChunkHeaderBytes + 2; ++left) {
    const size_t before = kBlockBytes - kFileHeaderBytes - kChunkHeaderBytes - left;
    std::vector<size_t> sizes = {0, 1, 6, 7, 8, 20};
    for (size_t blocks = 1; blocks <= 3; ++blocks) {
      const size_t full = blocks * (kBlockBytes - kChunkHeaderBytes);
      for (size_t size = full - 9; size <= full + 9; ++size) sizes.push_back(size);
    }
    for (const size_t size : sizes) {
      SCOPED_TRACE(absl::StrCat(left, " bytes left, record of ", size));
      const std::vector<std::string> records = {Record(before), Record(size), "next", ""};
      Write(records);
      absl::Status end;
      ASSERT_TRUE(Read(&end) == records);
      ASSERT_OK(end);
      ASSERT_EQ(offset_, std::filesystem::file_size(path_));
    }
  }
}

TEST_F(LogFileTest, ContinuesBehindAnyRecord) {
  const std::vector<std::string> records = {"one", Record(40000), "", Record(kBlockBytes), "last"};
  Write(records);
  const std::string whole = FileContent(path_);
  for (size_t kept = 0; kept <= records.size(); ++kept) {
    SCOPED_TRACE(kept);
    WriteBytes(whole);
    auto reader = LogReader::Open(path_);
    ASSERT_OK(reader);
    for (size_t i = 0; i < kept; ++i) ASSERT_OK((*reader)->Next());
    auto writer = LogWriter::Continue(path_, (*reader)->offset());
    ASSERT_OK(writer);
    for (size_t i = kept; i < records.size(); ++i) ASSERT_OK((*writer)->Append(records[i]));
    ASSERT_OK((*writer)->Flush(/*sync=*/false));
    ASSERT_TRUE(FileContent(path_) == whole);
    ASSERT_EQ((*writer)->end(), whole.size());
  }
}

TEST_F(LogFileTest, ContinuesAnEmptyFileWithAHeader) {
  WriteBytes(":W");
  ASSERT_OK(LogWriter::Continue(path_, 0));
  EXPECT_EQ(FileContent(path_), kFileHeader);
  EXPECT_THAT(Read(), IsEmpty());
  EXPECT_THAT(LogWriter::Continue(path_ + "x", 0), StatusIs(absl::StatusCode::kNotFound));
}

TEST_F(LogFileTest, DoesNotCreateAFileThatExists) {
  Write({"x"});
  EXPECT_THAT(LogWriter::Create(path_), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_THAT(Read(), ElementsAre("x"));
}

TEST_F(LogFileTest, GivesFilesTheUsualMode) {
  const mode_t umask_before = umask(022);
  Write({});
  umask(umask_before);
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0644u);
}

TEST_F(LogFileTest, ReadsFromAnOffset) {
  Write({"one", "two"});
  auto reader = LogReader::Open(path_);
  ASSERT_OK(reader);
  ASSERT_OK((*reader)->Next());
  EXPECT_THAT(Read(nullptr, (*reader)->offset()), ElementsAre("two"));
}

// A log that is cut anywhere gives its whole records, and tells how it ends.
TEST_F(LogFileTest, FileCutAnywhereIsTornOrEndsBehindARecord) {
  const std::vector<std::string> records = {"one", Record(kBlockBytes - 50), Record(50), "four"};
  Write(records);
  const std::string whole = FileContent(path_);
  std::vector<uint64_t> ends = {kFileHeaderBytes};
  auto reader = LogReader::Open(path_);
  ASSERT_OK(reader);
  for (size_t i = 0; i < records.size(); ++i) {
    ASSERT_OK((*reader)->Next());
    ends.push_back((*reader)->offset());
  }
  for (size_t size = kFileHeaderBytes; size <= whole.size(); ++size) {
    if (size == 100) size = kBlockBytes - 100;  // those between are all within the second record
    SCOPED_TRACE(size);
    WriteBytes(absl::string_view(whole).substr(0, size));
    absl::Status end;
    const std::vector<std::string> found = Read(&end);
    const size_t count =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), size) - ends.begin() - 1);
    ASSERT_THAT(found, ElementsAreArray(records.begin(), records.begin() + count));
    ASSERT_EQ(offset_, ends[count]);
    ASSERT_EQ(end.ok(), size == ends[count]) << end;
    ASSERT_EQ(torn_, !end.ok());
  }
}

TEST_F(LogFileTest, PaddingAtTheEndOfTheFileIsNoDamage) {
  Write({Record(kBlockBytes - kFileHeaderBytes - kChunkHeaderBytes - 5), "x"});
  WriteBytes(FileContent(path_).substr(0, kBlockBytes - 2));
  absl::Status end;
  EXPECT_THAT(Read(&end), ::testing::SizeIs(1));
  EXPECT_OK(end);
}

TEST_F(LogFileTest, ReaderSeesWhatIsWrittenAfterItsEnd) {
  auto writer = LogWriter::Create(path_);
  ASSERT_OK(writer);
  auto reader = LogReader::Open(path_);
  ASSERT_OK(reader);
  EXPECT_EQ((*(*reader)->Next()), absl::nullopt);
  ASSERT_OK((*writer)->Append("one"));
  EXPECT_EQ((*(*reader)->Next()), absl::nullopt);  // not flushed
  ASSERT_OK((*writer)->Flush(/*sync=*/false));
  EXPECT_EQ((*(*reader)->Next()), "one");

  ASSERT_OK((*writer)->Append(Record(40000)));
  ASSERT_OK((*writer)->Flush(/*sync=*/false));
  const std::string whole = FileContent(path_);
  std::filesystem::resize_file(path_, 35000);
  EXPECT_THAT((*reader)->Next(), StatusIs(absl::StatusCode::kDataLoss));
  EXPECT_TRUE((*reader)->torn());
  WriteBytes(whole);
  EXPECT_TRUE((*(*reader)->Next()) == Record(40000));
  EXPECT_FALSE((*reader)->torn());
}

TEST_F(LogFileTest, SkipsABlockThatWasNeverWritten) {
  Write({Record(kBlockBytes - kFileHeaderBytes - kChunkHeaderBytes), "behind"});
  const std::string whole = FileContent(path_);
  WriteBytes(whole.substr(0, kBlockBytes) + std::string(kBlockBytes, '\0') +
             whole.substr(kBlockBytes));
  absl::Status end;
  EXPECT_THAT(Read(&end), ElementsAre(::testing::SizeIs(kBlockBytes - 14), "behind"));
  EXPECT_OK(end);
}

TEST_F(LogFileTest, ZerosAtTheEndOfTheFileAreNoRecord) {
  Write({"one"});
  const std::string whole = FileContent(path_);
  WriteBytes(whole + std::string(100000, '\0'));
  absl::Status end;
  EXPECT_THAT(Read(&end), ElementsAre("one"));
  EXPECT_OK(end);
  EXPECT_EQ(offset_, whole.size());
}

TEST_F(LogFileTest, ChangedByteIsDamage) {
  Write({"one", "two", "three"});
  const std::string whole = FileContent(path_);
  const size_t second = kFileHeaderBytes + kChunkHeaderBytes + 3;
  for (size_t at = second; at < second + kChunkHeaderBytes + 3; ++at) {
    SCOPED_TRACE(at);
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    WriteBytes(bytes);
    absl::Status end;
    EXPECT_THAT(Read(&end), ElementsAre("one"));
    EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss,
                              HasSubstr(absl::StrCat(path_, ", byte ", second, ":"))));
    EXPECT_EQ(offset_, second);
  }
  EXPECT_FALSE(torn_);
}

TEST_F(LogFileTest, RecordWithoutEndOrStartIsDamage) {
  Write({Record(40000)});
  const std::string one = FileContent(path_);
  Write({Record(40000), "x"});
  const std::string two = FileContent(path_);
  // The second block of both files begins with the end of the record.
  WriteBytes(one.substr(0, kFileHeaderBytes) + one.substr(kBlockBytes));
  absl::Status end;
  EXPECT_THAT(Read(&end), IsEmpty());
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no start")));
  EXPECT_FALSE(torn_);

  WriteBytes(two.substr(0, kBlockBytes) + two.substr(one.size()));
  EXPECT_THAT(Read(&end), IsEmpty());
  EXPECT_THAT(end, StatusIs(absl::StatusCode::kDataLoss, HasSubstr("no end")));
}

TEST_F(LogFileTest, RefusesOtherFiles) {
  EXPECT_THAT(LogReader::Open(path_), StatusIs(absl::StatusCode::kNotFound));
  WriteBytes("no log at all");
  EXPECT_THAT(LogReader::Open(path_), StatusIs(absl::StatusCode::kInvalidArgument));
  WriteBytes(absl::string_view(":W&B\xe1\xbe\1", 7));
  EXPECT_THAT(LogReader::Open(path_),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("version 1")));
  WriteBytes(":W&");
  EXPECT_THAT(LogReader::Open(path_), StatusIs(absl::StatusCode::kDataLoss));
}

TEST_F(LogFileTest, WriterGoesOnAfterADiskThatWasFull) {
  auto writer = LogWriter::Create(path_);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Append("one"));
  ASSERT_OK((*writer)->Flush(/*sync=*/true));
  const uint64_t end = (*writer)->end();
  {
    // A limit on the size of files cuts the write as a full disk does.
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{.rlim_cur = 1000, .rlim_max = before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    EXPECT_FALSE((*writer)->Append(Record(50000)).ok());
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
  }
  writer = LogWriter::Continue(path_, end);
  ASSERT_OK(writer);
  ASSERT_OK((*writer)->Append("two"));
  ASSERT_OK((*writer)->Flush(/*sync=*/true));
  EXPECT_THAT(Read(), ElementsAre("one", "two"));
}

}  // namespace
}  // namespace ranklog::wandb_log
