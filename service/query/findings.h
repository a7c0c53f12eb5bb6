#ifndef SERVICE_QUERY_FINDINGS_H_
#define SERVICE_QUERY_FINDINGS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ranklog::query {

// The problems that a check found, as sentences: the first few, and the total number.
class Findings {
 public:
  void Add(std::string text) {
    if (++count_ <= kKept) texts_.push_back(std::move(text));
  }
  bool empty() const { return count_ == 0; }
  uint64_t count() const { return count_; }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  // About one page; after the first are repaired, the next are shown.
  static constexpr uint64_t kKept = 20;
  uint64_t count_ = 0;
  std::vector<std::string> texts_;
};

}  // namespace ranklog::query

#endif  // SERVICE_QUERY_FINDINGS_H_
