#include "net/message_parser.h"

#include "base/text.h"
#include "net/wire.h"

namespace tritonforge::net {
namespace {

std::string_view std_view(boost::beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

void HeaderFields::add(std::string_view name, std::string_view value, error_code& error) {
  if (closed_) return;
  bytes_ += name.size() + value.size() + 4;
  if (bytes_ > kMaxHead) {
    error = http::error::header_limit;
    return;
  }
  std::string& all = headers[lowered(name)];
  if (!all.empty()) all += ", ";
  all += value;
}

RequestParser::RequestParser(Request& to, size_t max_body) : to_(to) {
  header_limit(kMaxHead);
  body_limit(max_body);
  eager(true);
}

void RequestParser::on_request_impl(http::verb, View method, View target, int version, error_code&) {
  to_.method = std_view(method);
  to_.target = std_view(target);
  version_ = version;
}

void RequestParser::on_field_impl(http::field, View name, View value, error_code& error) {
  fields_.add(std_view(name), std_view(value), error);
}

// Where the last coding is not chunked, nobody can say where the body ends (RFC 9112, 6.3): Beast takes it for none,
// and would take the body for the next request.
void RequestParser::on_header_impl(error_code& error) {
  fields_.close();
  if (fields_.headers.contains("transfer-encoding") && !chunked()) error = http::error::bad_transfer_encoding;
  to_.headers = std::move(fields_.headers);
}

void RequestParser::on_body_init_impl(const boost::optional<uint64_t>& length, error_code&) {
  if (length) to_.body.reserve(*length);  // at most the limit
}

size_t RequestParser::on_body_impl(View bytes, error_code&) {
  to_.body += std_view(bytes);
  return bytes.size();
}

ReplyParser::ReplyParser(const OnHead& on_head, const OnBody& on_body, std::optional<uint64_t> longest,
                         bool to_head_request)
    : on_head_(on_head), on_body_(on_body) {
  header_limit(kMaxHead);
  if (longest) body_limit(*longest);
  else body_limit(boost::none);
  eager(true);
  if (to_head_request) skip(true);
}

void ReplyParser::on_response_impl(int status, View, int, error_code&) { status_ = status; }

void ReplyParser::on_field_impl(http::field, View name, View value, error_code& error) {
  fields_.add(std_view(name), std_view(value), error);
}

void ReplyParser::on_header_impl(error_code&) {
  fields_.close();
  if (status_ / 100 == 1) return;
  on_head_(status_, std::move(fields_.headers));
}

size_t ReplyParser::on_body_impl(View bytes, error_code& error) {
  if (!bytes.empty() && !on_body_(std_view(bytes))) {
    hung_up_ = true;
    error = asio::error::operation_aborted;
  }
  return bytes.size();
}

}  // namespace tritonforge::net
