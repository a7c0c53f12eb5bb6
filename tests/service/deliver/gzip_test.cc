#include "service/deliver/http/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>
#include <string>

#include "tests/support/status_matchers.h"

namespace ranklog::deliver {
namespace {

std::string Unzipped(const std::string& body, size_t size) {
  std::string text(size + 1, '\0');
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

std::string Random(size_t size, uint32_t seed) {
  std::minstd_rand random(seed);
  std::string text(size, '\0');
  for (char& c : text) c = static_cast<char>(random() >> 8);
  return text;
}

TEST(GzipWriterTest, StoresWhatHardlyGetsSmaller) {
  const std::string zeros(3'000'000, 'x');
  const std::string random = Random(3'000'000, 1);
  std::string text;
  GzipWriter writer;
  for (const std::string& piece : {zeros, random, zeros, random.substr(0, 100), random}) {
    writer.Add(piece);
    text += piece;
  }
  ASSERT_OK_AND_ASSIGN(const std::string body, writer.Finish());
  EXPECT_EQ(Unzipped(body, text.size()), text);
  EXPECT_LT(body.size(), 2 * random.size() + 50'000);
}

TEST(GzipWriterTest, AnEmptyBodyIsValid) {
  GzipWriter writer;
  ASSERT_OK_AND_ASSIGN(const std::string body, writer.Finish());
  EXPECT_EQ(Unzipped(body, 0), "");
}

}  // namespace
}  // namespace ranklog::deliver
