#include "service/deliver/wandb/documents/sent_config.h"

#include <utility>

namespace ranklog::deliver::wandb {

void SentConfig::Set(std::string config, std::string bare) {
  config_ = std::move(config);
  bare_ = std::move(bare);
}

bool SentConfig::IsSent() const { return config_ == sent_; }

std::string SentConfig::ToSend(bool created) const {
  if (config_ != refused_) return config_;
  return created ? std::string() : bare_;
}

absl::optional<SentConfig::Refused> SentConfig::OnAccepted() {
  if (config_ != refused_) {  // it includes everything from an earlier refused config
    refused_.clear();
    answer_.clear();
  }
  sent_ = config_;
  if (answer_.empty()) return absl::nullopt;
  return Refused{std::exchange(answer_, ""), refused_};
}

bool SentConfig::OnRefused(std::string answer) {
  if (config_ == refused_ || config_ == bare_) {
    refused_.clear();
    answer_.clear();
    return false;
  }
  refused_ = config_;
  answer_ = std::move(answer);
  return true;
}

}  // namespace ranklog::deliver::wandb
