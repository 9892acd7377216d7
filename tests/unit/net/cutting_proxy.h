#pragma once
// A TCP proxy on loopback that cuts connections, or changes a byte, after so many bytes of the server's.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "unit/net/raw_socket.h"

namespace tritonforge::net {

class CuttingProxy {
 public:
  // after(): the server's bytes that a connection lets through before it is cut; `cuts` connections are.
  CuttingProxy(int server, std::function<uint64_t()> after, int cuts)
      : server_(server), after_(std::move(after)), cuts_(cuts) {
    accepting_ = std::thread([this] { accept(); });
  }
  ~CuttingProxy() {
    ended_ = true;
    listening_.end();
    accepting_.join();
    for (std::thread& thread : threads_) thread.join();
  }
  int port() const { return listening_.port; }
  int connections() const { return connections_; }
  int cut() const { return cut_; }
  int spoiled() const { return spoiled_; }
  // Changes the byte at this place of what the server sends, in so many connections.
  void spoil(uint64_t at, int times) {
    spoil_at_ = at;
    spoils_ = times;
  }
  // Whether the server sent `text`, in one go, since it was said.
  void listen_for(std::string text) { text_ = std::move(text); }  // before the first connection
  bool heard() const { return heard_; }

 private:
  static sockaddr_in loopback(int port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void accept() {
    while (!ended_) {
      const int client = listening_.accept();
      if (client < 0) return;
      ++connections_;
      threads_.emplace_back([this, client] { carry(client); });
    }
  }
  void carry(int client) {
    const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_in there = loopback(server_);
    uint64_t left = 0, passed = 0;
    {
      const std::lock_guard lock(mutex_);
      left = cuts_ > cut_ ? after_() : ~uint64_t{0};
    }
    if (::connect(server, reinterpret_cast<const sockaddr*>(&there), sizeof there) == 0) {
      std::vector<char> bytes(64 << 10);
      pollfd polled[2] = {{client, POLLIN, 0}, {server, POLLIN, 0}};
      while (!ended_) {
        if (::poll(polled, 2, 50) < 0) break;
        if (polled[0].revents != 0 && !pass(client, server, bytes)) break;
        if (polled[1].revents == 0) continue;
        const ssize_t got = ::recv(server, bytes.data(), std::min<uint64_t>(bytes.size(), left), 0);
        if (got <= 0) break;
        if (passed <= spoil_at_ && spoil_at_ < passed + static_cast<uint64_t>(got) && spoils_.fetch_sub(1) > 0) {
          bytes[spoil_at_ - passed] ^= 1;
          ++spoiled_;
        }
        passed += static_cast<uint64_t>(got);
        if (!text_.empty() &&
            std::string_view(bytes.data(), static_cast<size_t>(got)).find(text_) != std::string_view::npos)
          heard_ = true;
        if (!send_all(client, bytes.data(), got)) break;
        left -= static_cast<uint64_t>(got);
        if (left == 0) {
          ++cut_;
          break;
        }
      }
    }
    ::close(server);
    ::close(client);
  }
  static bool send_all(int to, const char* at, ssize_t size) {
    while (size > 0) {
      const ssize_t sent = ::send(to, at, static_cast<size_t>(size), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += sent;
      size -= sent;
    }
    return true;
  }
  static bool pass(int from, int to, std::vector<char>& bytes) {
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    return got > 0 && send_all(to, bytes.data(), got);
  }

  const int server_;
  const std::function<uint64_t()> after_;
  const int cuts_;
  const Listening listening_;
  std::mutex mutex_;
  std::string text_;
  std::atomic<bool> ended_{false}, heard_{false};
  std::atomic<int> connections_{0}, cut_{0}, spoiled_{0}, spoils_{0};
  std::atomic<uint64_t> spoil_at_{~uint64_t{0}};
  std::vector<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace tritonforge::net
