#include "service/ingest/ingest_credentials.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace ranklog::ingest {
namespace {

class IngestCredentialsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, mode_t mode) const {
    std::ofstream(dir_.File(name)) << "machine api.wandb.ai password " << std::string(40, 'k');
    chmod(dir_.File(name).c_str(), mode);
    return dir_.File(name);
  }
  static bool HasWandb(const deliver::CredentialStore::Options& options) {
    deliver::CredentialStore store(options);
    return IngestCredentials(&store).usual_destination(model::Session()) == "wandb";
  }

  const testing::TempDir dir_;
};

TEST_F(IngestCredentialsTest, KeyMeansWandb) {
  deliver::CredentialStore::Options options;
  EXPECT_FALSE(HasWandb(options));
  options.files = {dir_.File("credentials")};
  EXPECT_FALSE(HasWandb(options));
  Write("credentials", 0600);
  EXPECT_TRUE(HasWandb(options));
}

// Otherwise the run would stay on this node, and nobody would learn why.
TEST_F(IngestCredentialsTest, RefusedFileOfOursMeansWandb) {
  deliver::CredentialStore::Options options;
  options.files = {Write("credentials", 0644)};
  EXPECT_TRUE(HasWandb(options));
}

// For example a link to /dev/null.
TEST_F(IngestCredentialsTest, RefusedNetrcMeansNothing) {
  deliver::CredentialStore::Options options;
  options.netrc = {"/dev/null"};
  EXPECT_FALSE(HasWandb(options));
  options.files = {dir_.File("credentials")};
  std::ofstream(dir_.File("credentials")) << "machine other.example.com password k";
  chmod(dir_.File("credentials").c_str(), 0600);
  EXPECT_FALSE(HasWandb(options));
}

}  // namespace
}  // namespace ranklog::ingest
