#include "client/base/hash/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace ranklog::internal {
namespace {

// Source: the examples of FIPS 180 for SHA-256.
TEST(Sha256Test, MatchesPublishedVectors) {
  EXPECT_EQ(Sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(Sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

// Around the size at which the padding needs one more block. The figures are those of Python.
TEST(Sha256Test, EveryPaddingIsRight) {
  EXPECT_EQ(Sha256(std::string(55, '\xc8')),
            "33974081610daeaa22722a7b46254f95f6b16a83f1999fc560b496d9e17c8a91");
  EXPECT_EQ(Sha256(std::string(56, '\xc8')),
            "1abcda8aff745bcbd126c4bb5f0bf1cf8794adbd7819b9f0cb2b0d668e28374a");
  EXPECT_EQ(Sha256(std::string(63, '\xc8')),
            "4e828b49704213e4707007035dc3e61c540436ddf4d14023ed4e32577e97f381");
  EXPECT_EQ(Sha256(std::string(64, '\xc8')),
            "34cc5dbdf658a0cc3160111514671de40e72784439bf2f6a83ab2102004e1fcb");
  EXPECT_EQ(Sha256(std::string(119, '\xc8')),
            "f80d00a2006076a7370df69e6a33c4b73bb8c1cb8a8ababab763b6fb6835667f");
}

}  // namespace
}  // namespace ranklog::internal
