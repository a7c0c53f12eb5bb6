#include "service/peer/tls/peer_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "tests/support/absent.h"
#include "tests/support/file_content.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::peer {
namespace {

using ::ranklog::testing::FileContent;
using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

class PeerKeyTest : public ::testing::Test {
 protected:
  PeerKey MakeKey() {
    EXPECT_OK(PeerKey::Make(path_, kNow));
    auto key = PeerKey::Load(path_);
    EXPECT_OK(key);
    return *std::move(key);
  }
  void Write(const std::string& text) {
    std::ofstream(path_) << text;
    ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  }

  TempDir dir_;
  const std::string path_ = dir_.File("ranklog/peer.key");
};

std::shared_ptr<X509> CertificateOf(const std::string& pem) {
  BIO* const bio = BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()));
  std::shared_ptr<X509> certificate(PEM_read_bio_X509(bio, nullptr, nullptr, nullptr), X509_free);
  BIO_free(bio);
  return certificate;
}

// Whether the leaf is valid at that time for the authority, the purpose and the name.
bool Verifies(const Leaf& leaf, const std::string& authority_pem, absl::Time when, int purpose) {
  const auto certificate = CertificateOf(leaf.chain_pem);
  const auto authority = CertificateOf(authority_pem);
  X509_STORE* const store = X509_STORE_new();
  X509_STORE_CTX* const context = X509_STORE_CTX_new();
  X509_STORE_add_cert(store, authority.get());
  X509_STORE_CTX_init(context, store, certificate.get(), nullptr);
  X509_VERIFY_PARAM* const rules = X509_STORE_CTX_get0_param(context);
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(when));
  X509_VERIFY_PARAM_set_purpose(rules, purpose);
  X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_X509_STRICT);
  X509_VERIFY_PARAM_set1_host(rules, kPeerName, 0);
  const bool good = X509_verify_cert(context) == 1;
  X509_STORE_CTX_free(context);
  X509_STORE_free(store);
  return good;
}

TEST_F(PeerKeyTest, MakeWritesPrivateFile) {
  MakeKey();
  struct stat info {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
  ASSERT_EQ(stat(dir_.File("ranklog").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  EXPECT_THAT(FileContent(path_), AllOf(StartsWith("-----BEGIN PRIVATE KEY-----"),
                                        EndsWith("-----END CERTIFICATE-----\n")));
  int files = 0;
  for ([[maybe_unused]] const auto& each :
       std::filesystem::directory_iterator(dir_.File("ranklog"))) {
    ++files;
  }
  EXPECT_EQ(files, 1);
}

TEST_F(PeerKeyTest, MakeReplacesNoFile) {
  MakeKey();
  const std::string before = FileContent(path_);
  EXPECT_THAT(PeerKey::Make(path_, kNow), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_EQ(FileContent(path_), before);
  // A link to nowhere is a file, too.
  const std::string link = dir_.File("link");
  std::filesystem::create_symlink(dir_.File("elsewhere"), link);
  EXPECT_THAT(PeerKey::Make(link, kNow), StatusIs(absl::StatusCode::kAlreadyExists));
  EXPECT_FALSE(std::filesystem::exists(dir_.File("elsewhere")));
}

TEST_F(PeerKeyTest, MakeReportsWhyItCannotWrite) {
  EXPECT_THAT(PeerKey::Make("/proc/no/key", kNow).message(),
              HasSubstr("cannot create /proc/no: No such file or directory"));
}

TEST_F(PeerKeyTest, CopyHasSameFingerprint) {
  const PeerKey key = MakeKey();
  EXPECT_THAT(key.fingerprint(), MatchesRegex("SHA256:[A-Za-z0-9+/]{43}"));
  const std::string copy = dir_.File("copy");
  std::filesystem::copy_file(path_, copy);
  EXPECT_EQ(PeerKey::Load(copy)->fingerprint(), key.fingerprint());
  ASSERT_OK(PeerKey::Make(dir_.File("other"), kNow));
  EXPECT_NE(PeerKey::Load(dir_.File("other"))->fingerprint(), key.fingerprint());
}

TEST_F(PeerKeyTest, LeafIsValidForBothSides) {
  const PeerKey key = MakeKey();
  ASSERT_OK_AND_ASSIGN(const Leaf leaf, key.MakeLeaf(kNow));
  for (const int purpose : {X509_PURPOSE_SSL_CLIENT, X509_PURPOSE_SSL_SERVER}) {
    EXPECT_TRUE(Verifies(leaf, key.authority_pem(), kNow, purpose));
  }
  EXPECT_FALSE(Verifies(leaf, key.authority_pem(), kNow, X509_PURPOSE_SMIME_SIGN));
  ASSERT_OK(PeerKey::Make(dir_.File("other"), kNow));
  ASSERT_OK_AND_ASSIGN(const PeerKey other, PeerKey::Load(dir_.File("other")));
  EXPECT_FALSE(Verifies(leaf, other.authority_pem(), kNow, X509_PURPOSE_SSL_CLIENT));
}

// The clocks of nodes differ.
TEST_F(PeerKeyTest, LeafIsValidFromDayBeforeToMonthAfter) {
  const PeerKey key = MakeKey();
  ASSERT_OK_AND_ASSIGN(const Leaf leaf, key.MakeLeaf(kNow));
  const auto is_valid_after = [&](absl::Duration time) {
    return Verifies(leaf, key.authority_pem(), kNow + time, X509_PURPOSE_SSL_CLIENT);
  };
  EXPECT_TRUE(is_valid_after(-absl::Hours(23)));
  EXPECT_FALSE(is_valid_after(-absl::Hours(25)));
  EXPECT_TRUE(is_valid_after(absl::Hours(24 * 30 - 1)));
  EXPECT_FALSE(is_valid_after(absl::Hours(24 * 30 + 1)));
}

TEST_F(PeerKeyTest, KeyExpiresAfterTenYears) {
  const PeerKey key = MakeKey();
  EXPECT_EQ(key.expires(), kNow + absl::Hours(24 * 3652));
  ASSERT_OK_AND_ASSIGN(const Leaf last, key.MakeLeaf(key.expires() - absl::Hours(1)));
  EXPECT_FALSE(Verifies(last, key.authority_pem(), key.expires() + absl::Seconds(1),
                        X509_PURPOSE_SSL_CLIENT));
  EXPECT_THAT(key.MakeLeaf(key.expires()).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("expired on 2037-01-14")));
  EXPECT_THAT(key.MakeLeaf(kNow - absl::Hours(48)).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("set the clock")));
}

TEST_F(PeerKeyTest, EachLeafHasOwnKey) {
  const PeerKey key = MakeKey();
  ASSERT_OK_AND_ASSIGN(const Leaf one, key.MakeLeaf(kNow));
  ASSERT_OK_AND_ASSIGN(const Leaf two, key.MakeLeaf(kNow));
  EXPECT_NE(one.key_pem, two.key_pem);
  EXPECT_NE(one.chain_pem, two.chain_pem);
  EXPECT_THAT(FileContent(path_), ::testing::Not(HasSubstr(one.key_pem)));
}

TEST_F(PeerKeyTest, AccessibleFileIsRefused) {
  MakeKey();
  for (const mode_t mode : {0640u, 0604u, 0620u, 0601u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    EXPECT_THAT(PeerKey::Load(path_).status(),
                StatusIs(absl::StatusCode::kPermissionDenied,
                         AllOf(HasSubstr("accessible to other users (mode 06"),
                               HasSubstr("run: chmod 600 " + path_))));
  }
  ASSERT_EQ(chmod(path_.c_str(), 0400), 0);
  EXPECT_OK(PeerKey::Load(path_));
}

TEST_F(PeerKeyTest, ForeignFileIsRefused) {
  SKIP_WITHOUT(geteuid() == 0, "root, who alone gives a file away");
  MakeKey();
  ASSERT_EQ(chown(path_.c_str(), 1234, 1234), 0);
  EXPECT_THAT(PeerKey::Load(path_).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("belongs to user 1234")));
}

TEST_F(PeerKeyTest, OnlyRegularFileIsRead) {
  EXPECT_THAT(PeerKey::Load(dir_.path()).status(),
              StatusIs(absl::StatusCode::kPermissionDenied, HasSubstr("not a regular file")));
  const std::string pipe = dir_.File("pipe");
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(PeerKey::Load(pipe).status(), StatusIs(absl::StatusCode::kPermissionDenied))
      << "and nothing waits for a writer";
  EXPECT_THAT(PeerKey::Load(dir_.File("absent")).status(), StatusIs(absl::StatusCode::kNotFound));
}

// As the kubelet mounts a secret.
TEST_F(PeerKeyTest, LinkIsFollowed) {
  MakeKey();
  std::filesystem::create_symlink(path_, dir_.File("link"));
  EXPECT_OK(PeerKey::Load(dir_.File("link")));
}

TEST_F(PeerKeyTest, OtherContentIsRefused) {
  MakeKey();
  const std::string good = FileContent(path_);
  const size_t certificate = good.find("-----BEGIN CERTIFICATE");
  ASSERT_OK(PeerKey::Make(dir_.File("other"), kNow));
  const std::string other = FileContent(dir_.File("other"));
  const std::string encrypted =
      "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n";
  for (const std::string& text :
       {std::string(), std::string("secret"), good.substr(0, certificate), good.substr(certificate),
        good.substr(0, good.size() - 40), encrypted + good.substr(certificate),
        good.substr(0, certificate) + other.substr(other.find("-----BEGIN CERTIFICATE")),
        std::string(100'000, 'x')}) {
    Write(text);
    EXPECT_THAT(PeerKey::Load(path_).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("is not a peer key")))
        << text.substr(0, 60);
  }
}

// A leaf signs nothing.
TEST_F(PeerKeyTest, LeafIsNoKey) {
  const PeerKey key = MakeKey();
  ASSERT_OK_AND_ASSIGN(const Leaf leaf, key.MakeLeaf(kNow));
  Write(leaf.key_pem + leaf.chain_pem);
  EXPECT_THAT(PeerKey::Load(path_).status(), StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace ranklog::peer
