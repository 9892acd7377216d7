#pragma once
// A client's kept-alive connections on one loop, by host:port. They stay registered there from one exchange to the
// next. Those of TLS have one identity, the pool's: nobody gets a connection that another one was let in by.
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "net/lookup.h"
#include "net/stream.h"

namespace tritonforge::net {

// A connection to a server.
struct ClientSocket {
  explicit ClientSocket(const asio::any_io_executor& executor)
      : stream(tcp::socket(executor)), alarm(executor, [this] {
          if (on_alarm) on_alarm->rang();
        }) {}
  static constexpr size_t kChunk = 1 << 16;

  struct Listener {
    virtual void rang() = 0;

   protected:
    ~Listener() = default;
  };
  Stream stream;
  const std::unique_ptr<char[]> chunk{new char[kChunk]};  // what is read next
  Listener* on_alarm = nullptr;                           // who uses it now
  Alarm alarm;
  Clock::time_point idle_since{};
};

// On its loop's thread.
class SocketPool final : private ClientSocket::Listener {
 public:
  explicit SocketPool(TlsContextPtr tls) : tls_(std::move(tls)) {}  // null: the identity of the process
  // A connection whose peer has neither closed nor spoken since it was put back; null: there is none.
  std::unique_ptr<ClientSocket> take(const std::string& authority, bool tls);
  void put(const std::string& authority, std::unique_ptr<ClientSocket> socket);
  TlsContextPtr tls() const { return tls_ ? tls_ : tls_of_this_process(); }
  Lookups& lookups() { return lookups_; }

 private:
  static constexpr size_t kMaxPerHost = 256;
  static constexpr double kMaxIdle_s = 4;  // then it is closed; the least that servers keep them is uvicorn's 5
  void rang() override;                    // of a kept connection
  const TlsContextPtr tls_;
  Lookups lookups_;
  // The last used last.
  std::map<std::pair<std::string, bool>, std::vector<std::unique_ptr<ClientSocket>>> idle_;  // with TLS or without
};

// nullopt: null. Throws what TlsContext throws.
TlsContextPtr client_tls(const std::optional<TlsFiles>& files);

}  // namespace tritonforge::net
