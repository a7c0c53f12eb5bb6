#include "service/deliver/wandb/artifacts/md5.h"

#include <openssl/evp.h>

namespace ranklog::deliver::wandb {

void Md5::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Md5::Md5() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr); }

void Md5::Add(absl::string_view bytes) {
  EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size());
}

std::string Md5::Finish() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), digest, &size);
  EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr);
  return std::string(digest, digest + size);
}

std::string Md5Of(absl::string_view bytes) {
  Md5 md5;
  md5.Add(bytes);
  return md5.Finish();
}

}  // namespace ranklog::deliver::wandb
