// Servers that are not what the request was meant for: whose certificate proves nothing, or who
// send on to somebody else. None of them, and nobody behind them, gets to see a key.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "service/base/status_macros.h"
#include "service/deliver/curl_transport.h"
#include "tests/support/status_matchers.h"
#include "tests/support/temp_dir.h"

namespace ranklog::deliver {
namespace {

using ::ranklog::testing::StatusIs;
using ::ranklog::testing::TempDir;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr char kBasicKey[] = "Basic YXBpOmtleQ==";  // api:key

// A certificate that is signed by nobody but its own key.
class SelfSigned {
 public:
  // `names`: whom it is for, e.g. "IP:127.0.0.1".
  explicit SelfSigned(const char* names) : key_(EVP_EC_gen("P-256")), certificate_(X509_new()) {
    X509* const made = certificate_.get();
    X509_set_version(made, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(made), 1);
    X509_gmtime_adj(X509_getm_notBefore(made), -3600);
    X509_gmtime_adj(X509_getm_notAfter(made), 3600);
    X509_set_pubkey(made, key_.get());
    X509_NAME* const name = X509_get_subject_name(made);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                               reinterpret_cast<const unsigned char*>("tests"), -1, -1, 0);
    X509_set_issuer_name(made, name);
    X509_EXTENSION* const alternatives =
        X509V3_EXT_conf_nid(nullptr, nullptr, NID_subject_alt_name, names);
    X509_add_ext(made, alternatives, -1);
    X509_EXTENSION_free(alternatives);
    X509_sign(made, key_.get(), EVP_sha256());
  }

  void Write(const std::string& path) const {
    FILE* const file = fopen(path.c_str(), "w");
    PEM_write_X509(file, certificate_.get());
    fclose(file);
  }
  X509* certificate() const { return certificate_.get(); }
  EVP_PKEY* key() const { return key_.get(); }

 private:
  struct Free {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  std::unique_ptr<EVP_PKEY, Free> key_;
  std::unique_ptr<X509, Free> certificate_;
};

// Serves on a port of its own, and remembers what each request showed.
class Listener {
 public:
  explicit Listener(std::unique_ptr<httplib::Server> server, httplib::Server::Handler answer)
      : server_(std::move(server)) {
    server_->set_pre_routing_handler(
        [this, answer](const httplib::Request& request, httplib::Response& response) {
          {
            const absl::MutexLock lock(&mutex_);
            keys_.push_back(request.get_header_value("Authorization"));
          }
          answer(request, response);
          return httplib::Server::HandlerResponse::Handled;
        });
    port_ = server_->bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_->listen_after_bind(); });
    while (!server_->is_running()) std::this_thread::yield();
  }
  ~Listener() {
    server_->stop();
    thread_.join();
  }

  std::string At(const char* scheme) const {
    return absl::StrCat(scheme, "://127.0.0.1:", port_, "/path");
  }
  // The Authorization of every request, in their order.
  std::vector<std::string> keys() const {
    const absl::MutexLock lock(&mutex_);
    return keys_;
  }

 private:
  const std::unique_ptr<httplib::Server> server_;
  int port_ = 0;
  mutable absl::Mutex mutex_;
  std::vector<std::string> keys_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

void SayFine(const httplib::Request&, httplib::Response& response) {
  response.set_content("fine", "text/plain");
}

absl::StatusOr<HttpResponse> PostKeyTo(const std::string& url, const std::string& ca_file) {
  ASSIGN_OR_RETURN(const std::unique_ptr<CurlTransport> transport,
                   CurlTransport::Create({.ca_file = ca_file}));
  HttpRequest request;
  request.url = url;
  request.body = "rows";
  request.basic_user = "api";
  request.basic_password = "key";
  return transport->Post(request);
}

class UntrustedServerTest : public ::testing::Test {
 protected:
  static std::unique_ptr<httplib::Server> Tls(const SelfSigned& identity) {
    return std::make_unique<httplib::SSLServer>(identity.certificate(), identity.key());
  }
  const TempDir dir_;
};

TEST_F(UntrustedServerTest, GetsNoKeyIfNobodyWeTrustSignedForIt) {
  const SelfSigned identity("IP:127.0.0.1");
  const Listener server(Tls(identity), SayFine);
  EXPECT_THAT(PostKeyTo(server.At("https"), ""),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       AllOf(HasSubstr(server.At("https")), HasSubstr("certificate"))));
  EXPECT_THAT(server.keys(), IsEmpty());

  // It would have: the same server is believed once its certificate is trusted.
  identity.Write(dir_.File("ca.pem"));
  ASSERT_OK_AND_ASSIGN(const HttpResponse response,
                       PostKeyTo(server.At("https"), dir_.File("ca.pem")));
  EXPECT_EQ(response.body, "fine");
  EXPECT_THAT(server.keys(), ElementsAre(kBasicKey));
}

TEST_F(UntrustedServerTest, GetsNoKeyIfItsCertificateIsForAnotherHost) {
  const SelfSigned identity("IP:127.0.0.2,DNS:localhost");
  const Listener server(Tls(identity), SayFine);
  identity.Write(dir_.File("ca.pem"));
  EXPECT_THAT(PostKeyTo(server.At("https"), dir_.File("ca.pem")),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("certificate")));
  EXPECT_THAT(server.keys(), IsEmpty());
}

TEST(RedirectTest, IsTheAnswerAndTheServerBehindItHearsNothing) {
  for (const int code : {301, 302, 303, 307, 308}) {
    const Listener second(std::make_unique<httplib::Server>(), SayFine);
    const Listener first(
        std::make_unique<httplib::Server>(),
        [to = second.At("http"), code](const httplib::Request&, httplib::Response& response) {
          response.set_redirect(to, code);
        });
    ASSERT_OK_AND_ASSIGN(const HttpResponse response, PostKeyTo(first.At("http"), ""));
    EXPECT_EQ(response.code, code);
    EXPECT_THAT(first.keys(), ElementsAre(kBasicKey));
    EXPECT_THAT(second.keys(), IsEmpty()) << code;
  }
}

}  // namespace
}  // namespace ranklog::deliver
