#ifndef RANKLOG_SPAN_H_
#define RANKLOG_SPAN_H_

#include <cstddef>
#include <type_traits>
#include <utility>

#include "ranklog/compiler.h"

namespace ranklog {
inline namespace RANKLOG_LAYOUT {

// A view of contiguous elements, like std::span in C++20. Our functions use this type, so that
// their signatures are the same in C++17. A std::vector, a std::array, a std::span, an array, and
// anything else with data() and size() converts to it. The elements must outlive it.
template <typename T>
class Span {
 public:
  constexpr Span() noexcept = default;
  // A template, so that {0, 1} is not read as a null pointer and a size.
  template <typename U, std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>, int> = 0>
  constexpr Span(U* data, size_t size) noexcept : data_(data), size_(size) {}
  template <size_t kSize>
  constexpr Span(T (&array)[kSize]) noexcept : data_(array), size_(kSize) {}
  template <typename Container,
            typename U = std::remove_pointer_t<decltype(std::declval<Container&>().data())>,
            typename = decltype(std::declval<Container&>().size()),
            std::enable_if_t<std::is_convertible_v<U (*)[], T (*)[]>, int> = 0>
  constexpr Span(Container&& container) noexcept
      : data_(container.data()), size_(container.size()) {}

  constexpr T* data() const noexcept { return data_; }
  constexpr size_t size() const noexcept { return size_; }
  constexpr bool empty() const noexcept { return size_ == 0; }
  constexpr T* begin() const noexcept { return data_; }
  constexpr T* end() const noexcept { return data_ + size_; }
  constexpr T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace RANKLOG_LAYOUT
}  // namespace ranklog

#endif  // RANKLOG_SPAN_H_
