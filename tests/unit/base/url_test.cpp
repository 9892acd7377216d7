#include "base/url.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tritonforge {
namespace {

TEST(Url, ABaseIsKeptWithoutWhatWouldBeWrittenTwice) {
  EXPECT_EQ(base_url("http://127.0.0.1:8889/"), "http://127.0.0.1:8889");
  EXPECT_EQ(base_url("https://host/v1//"), "https://host/v1");
  EXPECT_EQ(base_url("http://[::1]:80"), "http://[::1]:80");
  for (const char* bad : {"notaurl", "host:80", "ftp://host", "http://", "http://host:0", "http://host:http",
                          "http://host/v1?key=1", "http://host#there", "http://host/a b"})
    EXPECT_THROW(base_url(bad), Error) << bad;
}

TEST(Url, AServerMayBeHostAndPortAndNeverAWordAlone) {
  EXPECT_EQ(server_url("127.0.0.1:30001"), "http://127.0.0.1:30001");
  EXPECT_EQ(server_url("https://host/"), "https://host");
  for (const char* bad : {"notaurl", "host:", "host:x", "host:70000", "http://host:1/v1", "host:1/v1"})
    EXPECT_THROW(server_url(bad), Error) << bad;
}

}  // namespace
}  // namespace tritonforge
