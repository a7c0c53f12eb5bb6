// HTTP and HTTPS servers for tests, and their certificates.

#ifndef TESTS_SUPPORT_TLS_SERVER_H_
#define TESTS_SUPPORT_TLS_SERVER_H_

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

namespace ranklog::testing {

// A certificate signed only by its own key.
class SelfSigned {
 public:
  // `names`: the subject alternative names, e.g. "IP:127.0.0.1".
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

// Listens on its own port, and keeps the details of each request.
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

  int port() const { return port_; }
  std::string At(const char* scheme) const {
    return absl::StrCat(scheme, "://127.0.0.1:", port_, "/path");
  }
  // Returns the Authorization header of each request, in order.
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

}  // namespace ranklog::testing

#endif  // TESTS_SUPPORT_TLS_SERVER_H_
