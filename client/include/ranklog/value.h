#ifndef RANKLOG_VALUE_H_
#define RANKLOG_VALUE_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace ranklog {

// A value of a run's config or summary: null, a bool, an integer, a floating-point number, a
// string, a list, or an object.
//
//   run.Config({{"lr", 3e-4}, {"model", ranklog::Value::Object({{"layers", 12}})}});
//
// Strings must be UTF-8. A null pointer, which getenv() may return, becomes an empty string. An
// integer outside int64_t becomes the nearest double. Lists and objects may be nested
// kMaxValueDepth levels deep; the limit bounds the recursion of readers.
class Value {
 public:
  using Field = std::pair<std::string, Value>;

  Value() = default;  // null
  Value(bool flag) : data_(flag) {}
  template <typename T,
            std::enable_if_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, int> = 0>
  Value(T integer) : data_(FromInteger(integer)) {}
  template <typename T, std::enable_if_t<std::is_floating_point_v<T>, int> = 0>
  Value(T number) : data_(static_cast<double>(number)) {}
  Value(const char* text) : data_(std::string(text == nullptr ? "" : text)) {}
  Value(std::string_view text) : data_(std::string(text)) {}
  Value(std::string text) : data_(std::move(text)) {}
  static Value List(std::vector<Value> values) { return Value(Data(std::move(values))); }
  static Value Object(std::vector<Field> fields) { return Value(Data(std::move(fields))); }

  using Data = std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<Value>,
                            std::vector<Field>>;
  const Data& data() const { return data_; }

 private:
  explicit Value(Data data) : data_(std::move(data)) {}
  template <typename T>
  static Data FromInteger(T integer) {
    const auto narrow = static_cast<int64_t>(integer);
    const bool fits = static_cast<T>(narrow) == integer && (std::is_signed_v<T> || narrow >= 0);
    return fits ? Data(narrow) : Data(static_cast<double>(integer));
  }
  Data data_;
};

inline constexpr int kMaxValueDepth = 32;

// One metric of a row: a key, and a number or a string. Refers to the key and the string, which
// must live until the call returns. Integers and bools are logged as numbers; integers are exact up
// to 2^53. A null pointer becomes an empty string.
//
// A key has 1 to 1024 bytes of UTF-8, and does not start with "_" (trackers reserve that prefix).
struct Metric {
  template <typename T, std::enable_if_t<std::is_arithmetic_v<T>, int> = 0>
  Metric(std::string_view key, T number) : key(key), number(static_cast<double>(number)) {}
  Metric(std::string_view key, std::string_view text)
      : key(key), text(text.data() ? text : std::string_view("")) {}
  Metric(std::string_view key, const char* text)
      : Metric(key, text == nullptr ? std::string_view("") : std::string_view(text)) {}
  Metric(std::string_view key, const std::string& text) : Metric(key, std::string_view(text)) {}

  std::string_view key;
  double number = 0;
  std::string_view text;  // if data() is null, the value is `number`
};

inline constexpr size_t kMaxKeyBytes = 1024;

}  // namespace ranklog

#endif  // RANKLOG_VALUE_H_
