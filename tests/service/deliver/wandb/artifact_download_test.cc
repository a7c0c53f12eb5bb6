// Artifacts that the run uses, and downloads.

#include "service/deliver/wandb/artifacts/artifact_download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "service/deliver/wandb/artifacts/artifact_name.h"
#include "tests/service/deliver/wandb/http_delivery.h"
#include "tests/support/temp_dir.h"

namespace ranklog::deliver::wandb {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(ArtifactNameTest, PartsMayBeLeftOut) {
  const auto parsed = [](const char* text) {
    const auto name = ParseArtifactName(text, "e", "p");
    return name.ok() ? name->entity + " " + name->project + " " + name->name + " " + name->alias
                     : "refused";
  };
  EXPECT_EQ(parsed("gpt"), "e p gpt latest");
  EXPECT_EQ(parsed("gpt:v3"), "e p gpt v3");
  EXPECT_EQ(parsed("llm/gpt:best"), "e llm gpt best");
  EXPECT_EQ(parsed("team/llm/gpt:best"), "team llm gpt best");
  for (const char* wrong : {"", ":v3", "gpt:", "a/b/c/d", "/gpt", "a//b", "gpt:a:b"}) {
    EXPECT_EQ(parsed(wrong), "refused") << wrong;
  }
  EXPECT_FALSE(ParseArtifactName("gpt", "e", "").ok()) << "no project";
}

class ArtifactDownloadTest : public HttpDeliveryTest {
 protected:
  ArtifactDownloadTest() {
    content_dir_ = dir_.path();
    Restart(WandbDelivery::Options());
    options_.name = "gpt:latest";
    options_.project = "p";
    options_.root = dir_.File("root");
    options_.asking.now = SteadyNow;
    options_.asking.sleep = [](absl::Duration) {};
  }
  model::Json Stage(const std::string& path, const std::string& bytes) {
    const std::string name = "f-" + std::to_string(++staged_);
    std::ofstream(dir_.File(name), std::ios::binary) << bytes;
    return {{"path", path}, {"file", name}, {"bytes", bytes.size()}};
  }
  void LogArtifact() {
    stored_.Append(1);
    stored_.Apply(model::Item::Kind::kArtifact,
                  {{"id", "id1"},
                   {"name", "gpt"},
                   {"type", "model"},
                   {"aliases", model::Json::array({"latest"})},
                   {"step", 7},
                   {"entries", model::Json::array({Stage("model.bin", content_),
                                                   Stage("sub/empty", ""),
                                                   {{"path", "data"}, {"ref", "s3://data"}}})}});
  }
  void End() {
    stored_.Close(model::RunState::kFinished, 0);
    Deliver(absl::Minutes(5));
    EXPECT_TRUE(stored_delivery_.complete) << stored_delivery_.last_error;
  }
  absl::StatusOr<DownloadReport> Download() {
    return DownloadArtifact(*transport_, server_.url(), {.secret = key_}, options_);
  }
  std::string Content(const std::string& path) const {
    std::ostringstream text;
    text << std::ifstream(options_.root + "/" + path, std::ios::binary).rdbuf();
    return text.str();
  }

  testing::TempDir dir_;
  int staged_ = 0;
  const std::string content_ = std::string(100'000, 'x') + "end";
  DownloadOptions options_;
};

TEST_F(ArtifactDownloadTest, FilesArriveAndStay) {
  LogArtifact();
  End();
  options_.piece_bytes = 30'000;
  uint64_t done = 0;
  options_.asking.progress = [&done](uint64_t bytes, uint64_t total) {
    EXPECT_GE(bytes, done);
    EXPECT_EQ(total, 100'003u);
    done = bytes;
  };
  ASSERT_OK_AND_ASSIGN(DownloadReport report, Download());
  EXPECT_THAT(report.version, HasSubstr("/p/gpt:v0"));
  EXPECT_EQ(report.files, 2u);
  EXPECT_EQ(report.bytes, 100'003u);
  EXPECT_EQ(report.present, 0u);
  EXPECT_THAT(report.references, ElementsAre("s3://data"));
  EXPECT_TRUE(Content("model.bin") == content_);
  EXPECT_EQ(Content("sub/empty"), "");
  EXPECT_EQ(done, 100'003u);

  // The second time, only the file that is wrong.
  std::ofstream(options_.root + "/model.bin", std::ios::binary) << std::string(100'003, 'y');
  done = 0;
  ASSERT_OK_AND_ASSIGN(report, Download());
  EXPECT_EQ(report.present, 1u);
  EXPECT_TRUE(Content("model.bin") == content_);
  const size_t requests = server_.requests().size();
  done = 0;
  ASSERT_OK_AND_ASSIGN(report, Download());
  EXPECT_EQ(report.present, 2u);
  EXPECT_EQ(server_.requests().size(), requests + 3) << "the name, the manifest's address, itself";
  size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(options_.root)) {
    files += entry.is_regular_file() ? 1 : 0;
  }
  EXPECT_EQ(files, 2u) << "no part is left";
}

TEST_F(ArtifactDownloadTest, StoreThatFailsIsAskedAgain) {
  LogArtifact();
  End();
  server_.Inject({.on = testing::FakeWandb::Fault::On::kStorage, .times = 2, .code = 503});
  ASSERT_OK(Download());
  EXPECT_TRUE(Content("model.bin") == content_);
}

TEST_F(ArtifactDownloadTest, WrongNameAndTypeAreErrors) {
  LogArtifact();
  End();
  options_.type = "dataset";
  EXPECT_THAT(Download(), StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("type model")));
  options_.type = "model";
  ASSERT_OK(Download());
  options_.name = "gpt:v9";
  EXPECT_THAT(Download(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("gpt:v9")));
}

TEST_F(ArtifactDownloadTest, RunUsesAnArtifact) {
  LogArtifact();
  stored_.Apply(model::Item::Kind::kArtifact, {{"use", "gpt:latest"}});
  stored_.Apply(model::Item::Kind::kArtifact, {{"use", "absent:v1"}});
  End();
  EXPECT_EQ(server_.Dump()["runs"]["r"]["used_artifacts"], nlohmann::json({"gpt"}));
  ASSERT_THAT(letters_, SizeIs(1));
  EXPECT_THAT(letters_[0].answer, HasSubstr("artifact absent:v1: there is no artifact"));
  EXPECT_FALSE(IsOfRow(letters_[0]));
  EXPECT_THAT(server_.errors(), IsEmpty());
}

}  // namespace
}  // namespace ranklog::deliver::wandb
