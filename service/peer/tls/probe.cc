#include "service/peer/tls/probe.h"

#include <errno.h>
#include <netdb.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/base/clock.h"
#include "service/base/status_macros.h"
#include "service/base/unique_fd.h"

namespace ranklog::peer {
namespace {

constexpr unsigned char kHttp2[] = {2, 'h', '2'};  // ALPN

struct Free {
  void operator()(addrinfo* list) const { freeaddrinfo(list); }
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* connection) const { SSL_free(connection); }
  void operator()(BIO* bio) const { BIO_free(bio); }
  void operator()(X509* certificate) const { X509_free(certificate); }
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

Owned<BIO> Reader(const std::string& pem) {
  return Owned<BIO>(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
}

Owned<X509> FirstCertificate(const std::string& pem) {
  return Owned<X509>(PEM_read_bio_X509(Reader(pem).get(), nullptr, nullptr, nullptr));
}

absl::StatusOr<Owned<SSL_CTX>> MakeContext(const PeerKey& key, absl::Time now) {
  ASSIGN_OR_RETURN(const Leaf leaf, key.MakeLeaf(now));
  Owned<SSL_CTX> context(SSL_CTX_new(TLS_client_method()));
  const Owned<X509> certificate = FirstCertificate(leaf.chain_pem);
  const Owned<X509> authority = FirstCertificate(key.authority_pem());
  const Owned<EVP_PKEY> own(
      PEM_read_bio_PrivateKey(Reader(leaf.key_pem).get(), nullptr, nullptr, nullptr));
  X509_VERIFY_PARAM* const rules = SSL_CTX_get0_param(context.get());
  const bool good =
      SSL_CTX_use_certificate(context.get(), certificate.get()) == 1 &&
      SSL_CTX_use_PrivateKey(context.get(), own.get()) == 1 &&
      X509_STORE_add_cert(SSL_CTX_get_cert_store(context.get()), authority.get()) == 1 &&
      X509_VERIFY_PARAM_set1_host(rules, kPeerName, 0) == 1 &&
      SSL_CTX_set_alpn_protos(context.get(), kHttp2, sizeof(kHttp2)) == 0;
  if (!good) return absl::InternalError("OpenSSL does not accept the certificate of this node");
  X509_VERIFY_PARAM_set_time(rules, absl::ToTimeT(now));
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  return context;
}

// Waits until the socket is ready. False: the deadline has passed.
bool Await(int fd, short events, absl::Time deadline) {
  pollfd waiting{fd, events, 0};
  while (true) {
    const int64_t left = absl::ToInt64Milliseconds(deadline - SteadyNow());
    const int count = poll(&waiting, 1, static_cast<int>(std::max<int64_t>(left, 0)));
    if (count > 0) return true;
    if (count == 0 || errno != EINTR) return false;
  }
}

std::string NumericText(const addrinfo& address) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  getnameinfo(address.ai_addr, address.ai_addrlen, host, sizeof(host), port, sizeof(port),
              NI_NUMERICHOST | NI_NUMERICSERV);
  const bool is_ipv6 = address.ai_family == AF_INET6;
  return absl::StrCat(is_ipv6 ? "[" : "", host, is_ipv6 ? "]:" : ":", port);
}

absl::StatusOr<UniqueFd> ConnectTo(const addrinfo& address, absl::Time deadline) {
  const std::string doing = absl::StrCat("cannot connect to ", NumericText(address), ": ");
  UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  int error = 0;
  if (!fd.valid() || (connect(fd.get(), address.ai_addr, address.ai_addrlen) != 0 &&
                      (error = errno) == EINPROGRESS)) {
    if (!Await(fd.get(), POLLOUT, deadline)) {
      return absl::DeadlineExceededError(absl::StrCat(
          doing,
          "no answer; a firewall between the nodes may drop the connection, or the node is "
          "down"));
    }
    socklen_t size = sizeof(error);
    getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error == 0) return fd;
  return absl::UnavailableError(absl::StrCat(
      doing, strerror(error),
      error == ECONNREFUSED
          ? "; no daemon listens there: on that node, run `ranklog peer-key --show` and `ranklog "
            "status`, and compare the port (--peer-listen)"
          : ""));
}

// TLS over a socket, through buffers in memory, so that a peer that leaves raises no signal.
class Connection {
 public:
  Connection(SSL_CTX* context, int fd, absl::Time deadline)
      : ssl_(SSL_new(context)), fd_(fd), deadline_(deadline) {
    from_peer_ = BIO_new(BIO_s_mem());
    to_peer_ = BIO_new(BIO_s_mem());
    SSL_set_bio(ssl_.get(), from_peer_, to_peer_);  // owns both
  }

  enum class End { kDone, kTls, kClosed, kSilent };

  // Repeats `operation` until it is done, and moves bytes in between.
  template <typename Operation>
  End Do(Operation operation) {
    while (true) {
      ERR_clear_error();
      const int result = operation(ssl_.get());
      const int error = SSL_get_error(ssl_.get(), result);
      Send();
      if (result == 1) return End::kDone;
      if (error == SSL_ERROR_ZERO_RETURN) return End::kClosed;
      if (error != SSL_ERROR_WANT_READ) return End::kTls;
      if (!Await(fd_, POLLIN, deadline_)) return End::kSilent;
      char bytes[4096];
      const ssize_t size = recv(fd_, bytes, sizeof(bytes), MSG_DONTWAIT);
      if (size < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (size <= 0) return End::kClosed;
      BIO_write(from_peer_, bytes, static_cast<int>(size));
    }
  }

  SSL* ssl() { return ssl_.get(); }

 private:
  void Send() {
    char bytes[4096];
    int size = 0;
    while ((size = BIO_read(to_peer_, bytes, sizeof(bytes))) > 0) {
      // A few kilobytes, for which a new connection has room.
      if (send(fd_, bytes, static_cast<size_t>(size), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
    }
  }

  const Owned<SSL> ssl_;
  BIO* from_peer_ = nullptr;
  BIO* to_peer_ = nullptr;
  const int fd_;
  const absl::Time deadline_;
};

constexpr char kSameKey[] =
    "; compare `ranklog peer-key --show` on both nodes, copy the file, and start the daemon again";

absl::Status WhyNot(Connection::End end, Connection& connection, const std::string& where) {
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_REASON(error);
  const long verified = SSL_get_verify_result(connection.ssl());
  if (end == Connection::End::kSilent) {
    return absl::DeadlineExceededError(
        absl::StrCat(where,
                     " accepts connections but does not answer; is it a daemon of Ranklog, "
                     "and does it run?"));
  }
  if (verified == X509_V_ERR_CERT_HAS_EXPIRED || verified == X509_V_ERR_CERT_NOT_YET_VALID) {
    return absl::UnauthenticatedError(absl::StrCat(
        where, ": ", X509_verify_cert_error_string(verified),
        "; compare the clocks of both nodes; the certificate is valid for 30 days, and a running "
        "daemon renews it each week"));
  }
  if (end == Connection::End::kTls && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    return absl::UnauthenticatedError(absl::StrCat(
        where, " has another key: ", X509_verify_cert_error_string(verified), kSameKey));
  }
  // Alerts of the peer are numbered from here on.
  if (end == Connection::End::kTls && reason >= SSL_AD_REASON_OFFSET) {
    return absl::UnauthenticatedError(absl::StrCat(where, " does not accept the key of this node: ",
                                                   ERR_reason_error_string(error), kSameKey));
  }
  if (end == Connection::End::kTls) {
    const char* const why = ERR_reason_error_string(error);
    return absl::FailedPreconditionError(
        absl::StrCat(where, " is not a daemon of Ranklog: ", why == nullptr ? "no TLS" : why,
                     "; another program has the port"));
  }
  return absl::UnavailableError(absl::StrCat(
      where, " closed the connection; it may have no free descriptors, or be another program"));
}

}  // namespace

absl::StatusOr<Probed> Probe(const PeerKey& key, const HostPort& address, absl::Time now,
                             absl::Duration patience) {
  ASSIGN_OR_RETURN(const Owned<SSL_CTX> context, MakeContext(key, now));
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int unknown =
      getaddrinfo(address.host.c_str(), absl::StrCat(address.port).c_str(), &hints, &found);
  const Owned<addrinfo> addresses(found);
  if (unknown != 0) {
    return absl::NotFoundError(absl::StrCat("cannot resolve ", address.host, ": ",
                                            gai_strerror(unknown),
                                            "; give a name or an address that this node knows"));
  }
  const absl::Time begin = SteadyNow();
  absl::StatusOr<UniqueFd> fd;
  std::string where;
  for (const addrinfo* each = addresses.get(); each != nullptr; each = each->ai_next) {
    where = NumericText(*each);
    fd = ConnectTo(*each, begin + patience);
    if (fd.ok() || absl::IsDeadlineExceeded(fd.status())) break;
  }
  RETURN_IF_ERROR(fd.status());
  Connection connection(context.get(), fd->get(), begin + patience);
  Connection::End end = connection.Do(SSL_connect);
  // With TLS 1.3, the peer checks our certificate after that. Its first byte means that it took it.
  char byte = 0;
  if (end == Connection::End::kDone) {
    end = connection.Do([&byte](SSL* ssl) { return SSL_read(ssl, &byte, 1); });
  }
  if (end != Connection::End::kDone) return WhyNot(end, connection, where);
  return Probed{
      .address = where, .protocol = SSL_get_version(connection.ssl()), .took = SteadyNow() - begin};
}

}  // namespace ranklog::peer
