#pragma once
// Beast's parser of HTTP/1.1, straight to where the bytes go: header fields into Headers, a body's pieces to their
// receiver, out of the caller's buffer. Nothing is gathered in between.
#include "net/asio.h"
#include "net/http.h"

namespace tritonforge::net {

inline constexpr uint32_t kMaxHead = 1 << 16;  // bytes of a message's head

// Lower-case names; what comes twice is joined by ", ". Fields behind a chunked body (trailers) are dropped: by then
// the head was acted upon.
class HeaderFields {
 public:
  void add(std::string_view name, std::string_view value, error_code& error);
  void close() { closed_ = true; }
  Headers headers;

 private:
  size_t bytes_ = 0;  // Beast's own limit is for what comes at once
  bool closed_ = false;
};

class RequestParser final : public http::basic_parser<true> {
 public:
  // Fills method, target, headers and body.
  RequestParser(Request& to, size_t max_body);
  bool http_1_0() const { return version_ < 11; }

 private:
  using View = boost::beast::string_view;
  void on_request_impl(http::verb, View method, View target, int version, error_code&) override;
  void on_response_impl(int, View, int, error_code&) override {}
  void on_field_impl(http::field, View name, View value, error_code&) override;
  void on_header_impl(error_code&) override;
  void on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) override;
  size_t on_body_impl(View bytes, error_code&) override;
  void on_chunk_header_impl(uint64_t, View, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, View bytes, error_code& error) override { return on_body_impl(bytes, error); }
  void on_finish_impl(error_code&) override {}

  Request& to_;
  HeaderFields fields_;
  int version_ = 11;
};

class ReplyParser final : public http::basic_parser<false> {
 public:
  using OnHead = std::function<void(int status, Headers headers)>;
  using OnBody = std::function<bool(std::string_view bytes)>;
  // `on_head` is not called for 1xx. Once `on_body` says false, put() ends with operation_aborted, and with body_limit
  // where the body is `longest` and more.
  ReplyParser(const OnHead& on_head, const OnBody& on_body, std::optional<uint64_t> longest, bool to_head_request);
  bool is_interim() const { return is_done() && status_ / 100 == 1; }  // 100 Continue: the reply is still to come
  bool hung_up() const { return hung_up_; }

 private:
  using View = boost::beast::string_view;
  void on_request_impl(http::verb, View, View, int, error_code&) override {}
  void on_response_impl(int status, View reason, int version, error_code&) override;
  void on_field_impl(http::field, View name, View value, error_code&) override;
  void on_header_impl(error_code&) override;
  void on_body_init_impl(const boost::optional<uint64_t>&, error_code&) override {}
  size_t on_body_impl(View bytes, error_code&) override;
  void on_chunk_header_impl(uint64_t, View, error_code&) override {}
  size_t on_chunk_body_impl(uint64_t, View bytes, error_code& error) override { return on_body_impl(bytes, error); }
  void on_finish_impl(error_code&) override {}

  const OnHead& on_head_;
  const OnBody& on_body_;
  HeaderFields fields_;
  int status_ = 0;
  bool hung_up_ = false;
};

}  // namespace tritonforge::net
