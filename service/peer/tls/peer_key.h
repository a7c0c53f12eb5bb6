// The key that the daemons of a job's nodes share: a private certificate authority in one file.
// Whoever has the file is a peer. security.md in service/ describes what a peer can do.

#ifndef SERVICE_PEER_TLS_PEER_KEY_H_
#define SERVICE_PEER_TLS_PEER_KEY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

// Of OpenSSL, whose headers only peer_key.cc needs.
struct evp_pkey_st;
struct x509_st;

namespace ranklog::peer {

// The name in every leaf certificate, because hosts have many names.
inline constexpr char kPeerName[] = "ranklog-peer";

// A certificate of a daemon, signed by the key. Only in memory.
struct Leaf {
  std::string key_pem;
  std::string chain_pem;  // the leaf, then the certificate of the authority
};

// Thread-safe after Load().
class PeerKey {
 public:
  // Writes a new key, valid for ten years, to `path` (0600), and makes missing directories (0700).
  // The file appears complete or not at all.
  //   kAlreadyExists   there is a file; it is never replaced
  static absl::Status Make(const std::string& path, absl::Time now);

  // Reads a key. The messages tell what to do.
  //   kNotFound            there is no file
  //   kPermissionDenied    another user owns it or can read it, or it is not a regular file
  //   kInvalidArgument     it holds no key that Make() wrote
  static absl::StatusOr<PeerKey> Load(const std::string& path);

  // A new leaf, valid from a day before `now`, because the clocks of nodes differ, to 30 days after.
  // Costs less than a millisecond.
  //   kFailedPrecondition  the key has expired, or begins after `now`
  absl::StatusOr<Leaf> MakeLeaf(absl::Time now) const;

  const std::string& path() const { return path_; }
  // The certificate of the authority, against which peers are checked.
  const std::string& authority_pem() const { return authority_pem_; }
  // "SHA256:" and 43 characters; equal on all nodes that have the same key.
  std::string fingerprint() const;
  absl::Time expires() const;

 private:
  struct Free {
    void operator()(evp_pkey_st* key) const;
    void operator()(x509_st* certificate) const;
  };

  std::string path_;
  std::unique_ptr<evp_pkey_st, Free> key_;
  std::unique_ptr<x509_st, Free> authority_;
  std::string authority_pem_;
};

}  // namespace ranklog::peer

#endif  // SERVICE_PEER_TLS_PEER_KEY_H_
