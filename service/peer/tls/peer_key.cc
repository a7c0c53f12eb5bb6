#include "service/peer/tls/peer_key.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "service/base/ownership.h"
#include "service/base/status_macros.h"
#include "service/base/text/shell_word.h"

namespace ranklog::peer {
namespace {

constexpr absl::Duration kKeyLife = absl::Hours(24 * 3652);
constexpr absl::Duration kLeafLife = absl::Hours(24 * 30);
constexpr absl::Duration kClockSlack = absl::Hours(24);

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeCertificate {
  void operator()(X509* certificate) const { X509_free(certificate); }
};
using Bio = std::unique_ptr<BIO, FreeBio>;
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
using Certificate = std::unique_ptr<X509, FreeCertificate>;

absl::Status OpenSslError(absl::string_view doing) {
  char why[256];
  ERR_error_string_n(ERR_get_error(), why, sizeof(why));
  ERR_clear_error();
  return absl::InternalError(absl::StrCat("cannot ", doing, ": ", why));
}

std::string ContentOf(BIO* bio) {
  const char* data = nullptr;
  const auto size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

// Its memory is cleared when it is freed.
Bio SecretBio() { return Bio(BIO_new(BIO_s_secmem())); }

std::string KeyPem(EVP_PKEY* key) {
  const Bio bio = SecretBio();
  PEM_write_bio_PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr);
  return ContentOf(bio.get());
}

std::string CertificatePem(X509* certificate) {
  const Bio bio(BIO_new(BIO_s_mem()));
  PEM_write_bio_X509(bio.get(), certificate);
  return ContentOf(bio.get());
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  if (extension == nullptr) return false;
  const bool added = X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

struct Content {
  std::string name;
  absl::Time from;
  absl::Time to;
  std::vector<std::pair<int, const char*>> extensions;
};

// A certificate for `key`. `issuer` null: its own, signed by `signer`, which is `key` then.
Certificate Sign(const Content& content, EVP_PKEY* key, X509* issuer, EVP_PKEY* signer) {
  Certificate made(X509_new());
  X509* const certificate = made.get();
  if (issuer == nullptr) issuer = certificate;
  uint64_t serial = 0;
  auto* const bytes = reinterpret_cast<unsigned char*>(&serial);
  X509_NAME* const name = X509_get_subject_name(certificate);
  const auto* const text = reinterpret_cast<const unsigned char*>(content.name.c_str());
  bool good =
      RAND_bytes(bytes, sizeof(serial)) == 1 &&
      X509_set_version(certificate, X509_VERSION_3) == 1 &&
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(certificate), (serial >> 1) | 1) == 1 &&
      ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(content.from)) != nullptr &&
      ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(content.to)) != nullptr &&
      X509_set_pubkey(certificate, key) == 1 &&
      X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
      X509_set_issuer_name(certificate, X509_get_subject_name(issuer)) == 1;
  for (const auto& [kind, value] : content.extensions) {
    good = good && AddExtension(certificate, issuer, kind, value);
  }
  good = good && X509_sign(certificate, signer, EVP_sha256()) > 0;
  return good ? std::move(made) : nullptr;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  tm parts{};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTimeT(timegm(&parts));
}

std::string DayText(absl::Time time) {
  return absl::FormatTime("%Y-%m-%d", time, absl::UTCTimeZone());
}

// Gives the complete file `fresh` its name, unless there is one.
absl::Status Publish(const std::string& fresh, const std::string& path) {
  int result = link(fresh.c_str(), path.c_str());
  if (result != 0 && errno != EEXIST) {
    // A file system without hard links.
    result = renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE);
  }
  if (result == 0) return absl::OkStatus();
  if (errno == EEXIST) {
    return absl::AlreadyExistsError(absl::StrCat(
        path,
        " exists and was not replaced; daemons that use it would no longer trust each other; "
        "for a new key, remove it first, on all nodes"));
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
}

// Makes the directory and its missing parents, with mode 0700.
absl::Status MakeDirectories(const std::filesystem::path& dir) {
  std::error_code ignored;
  if (dir.empty() || std::filesystem::is_directory(dir, ignored)) return absl::OkStatus();
  RETURN_IF_ERROR(MakeDirectories(dir.parent_path()));
  if (mkdir(dir.c_str(), 0700) == 0 || errno == EEXIST) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", dir.string()));
}

absl::Status WriteNew(const std::string& path, absl::string_view text) {
  RETURN_IF_ERROR(MakeDirectories(std::filesystem::path(path).parent_path()));
  const std::string fresh = absl::StrCat(path, ".", getpid());
  const int fd = open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", fresh));
  const absl::Cleanup remove_it = [&fresh] { unlink(fresh.c_str()); };
  errno = ENOSPC;  // for a short write
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int why = errno;
  close(fd);
  if (!written) return absl::ErrnoToStatus(why, absl::StrCat("cannot write ", fresh));
  return Publish(fresh, path);
}

// Answers that there is none. OpenSSL would ask at the terminal.
int NoPassphrase(char*, int, int, void*) { return 0; }

}  // namespace

void PeerKey::Free::operator()(evp_pkey_st* key) const { EVP_PKEY_free(key); }
void PeerKey::Free::operator()(x509_st* certificate) const { X509_free(certificate); }

absl::Status PeerKey::Make(const std::string& path, absl::Time now) {
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("make a key");
  // Different for each key, so that a certificate of another key is recognized by its issuer.
  uint32_t number = 0;
  RAND_bytes(reinterpret_cast<unsigned char*>(&number), sizeof(number));
  const Certificate authority =
      Sign({.name = absl::StrFormat("ranklog peer key %08x", number),
            .from = now - kClockSlack,
            .to = now + kKeyLife,
            .extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                           {NID_key_usage, "critical,keyCertSign"},
                           {NID_subject_key_identifier, "hash"}}},
           key.get(), nullptr, key.get());
  if (authority == nullptr) return OpenSslError("sign a certificate");
  return WriteNew(path, absl::StrCat(KeyPem(key.get()), CertificatePem(authority.get())));
}

absl::StatusOr<PeerKey> PeerKey::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::string text, ReadOwnFile(path, /*must_be_private=*/true));
  const absl::Cleanup clear = [&text] { OPENSSL_cleanse(text.data(), text.size()); };
  const auto parse = [&text](auto read) {
    const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
    return read(bio.get(), nullptr, NoPassphrase, nullptr);
  };
  PeerKey loaded;
  loaded.path_ = path;
  loaded.key_.reset(parse(PEM_read_bio_PrivateKey));
  loaded.authority_.reset(parse(PEM_read_bio_X509));
  X509* const authority = loaded.authority_.get();
  const bool good = loaded.key_ != nullptr && authority != nullptr &&
                    X509_check_private_key(authority, loaded.key_.get()) == 1 &&
                    X509_check_ca(authority) == 1;
  ERR_clear_error();
  if (!good) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " is not a peer key, or only a part of one; copy it again from another node, or "
        "remove it and run: ranklog peer-key ",
        ShellWord(path)));
  }
  loaded.authority_pem_ = CertificatePem(authority);
  return loaded;
}

absl::StatusOr<Leaf> PeerKey::MakeLeaf(absl::Time now) const {
  if (now >= expires()) {
    return absl::FailedPreconditionError(
        absl::StrCat(path_, " expired on ", DayText(expires()),
                     "; remove it, run `ranklog peer-key`, and copy it to all nodes"));
  }
  if (const absl::Time from = TimeOf(X509_get0_notBefore(authority_.get())); now < from) {
    return absl::FailedPreconditionError(absl::StrCat(path_, " is valid from ", DayText(from),
                                                      " on, and the clock of this node shows ",
                                                      DayText(now), "; set the clock"));
  }
  const Key key(EVP_EC_gen("P-256"));
  if (key == nullptr) return OpenSslError("make a key");
  const Certificate leaf = Sign({.name = kPeerName,
                                 .from = now - kClockSlack,
                                 .to = std::min(now + kLeafLife, expires()),
                                 .extensions = {{NID_basic_constraints, "critical,CA:FALSE"},
                                                {NID_key_usage, "critical,digitalSignature"},
                                                {NID_ext_key_usage, "serverAuth,clientAuth"},
                                                {NID_subject_alt_name, "DNS:ranklog-peer"},
                                                {NID_authority_key_identifier, "keyid:always"}}},
                                key.get(), authority_.get(), key_.get());
  if (leaf == nullptr) return OpenSslError("sign a certificate");
  return Leaf{.key_pem = KeyPem(key.get()),
              .chain_pem = absl::StrCat(CertificatePem(leaf.get()), authority_pem_)};
}

std::string PeerKey::fingerprint() const {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (X509_digest(authority_.get(), EVP_sha256(), digest, &size) != 1) return "";
  const std::string text =
      absl::Base64Escape(absl::string_view(reinterpret_cast<const char*>(digest), size));
  return absl::StrCat("SHA256:", absl::StripSuffix(text, "="));
}

absl::Time PeerKey::expires() const { return TimeOf(X509_get0_notAfter(authority_.get())); }

}  // namespace ranklog::peer
