// MD5, which W&B uses to tell the contents of files apart.

#ifndef SERVICE_DELIVER_WANDB_ARTIFACTS_MD5_H_
#define SERVICE_DELIVER_WANDB_ARTIFACTS_MD5_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace ranklog::deliver::wandb {

// Not thread-safe.
class Md5 {
 public:
  Md5();
  void Add(absl::string_view bytes);
  // The 16 bytes; afterwards it begins anew.
  std::string Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Md5Of(absl::string_view bytes);

}  // namespace ranklog::deliver::wandb

#endif  // SERVICE_DELIVER_WANDB_ARTIFACTS_MD5_H_
