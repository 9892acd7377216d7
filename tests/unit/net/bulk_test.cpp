#include "net/bulk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <future>
#include <random>
#include <thread>

#include "base/error.h"
#include "net/bulk_wire.h"
#include "unit/net/certificates.h"
#include "unit/net/cutting_proxy.h"
#include "unit/net/raw_socket.h"

namespace tritonforge::net {
namespace {

using ::testing::HasSubstr;

constexpr size_t kSize = 5 * kBulkPiece + 12345;

std::string random_bytes(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(size, '\0');
  for (size_t i = 0; i + 8 <= size; i += 8) {
    const uint64_t word = random();
    std::memcpy(bytes.data() + i, &word, 8);
  }
  return bytes;
}

class Bulk : public ::testing::Test {
 protected:
  Bulk() : folder("bulk"), bytes(random_bytes(kSize, 1)), server({.key = "k1", .stall_s = 60}) {
    write("one", bytes);
    server.offer(1, folder.path() / "one");
  }
  void write(const std::string& name, const std::string& content) {
    std::ofstream(folder.path() / name, std::ios::binary) << content;
  }
  BulkFetch what(uint64_t version = 1) const {
    return {.host = "127.0.0.1", .port = server.port(), .key = "k1", .version = version, .stall_s = 0.5};
  }
  static std::string fetch(const BulkFetch& what, double seconds = 20) {
    std::string got;
    bulk_fetch(
        what,
        [&](uint64_t total) {
          got.assign(total, '\0');
          return std::as_writable_bytes(std::span(got.data(), got.size()));
        },
        Deadline::after(seconds));
    return got;
  }
  static Error error_of(const BulkFetch& what, double seconds = 20) {
    try {
      fetch(what, seconds);
    } catch (const Error& error) {
      return error;
    }
    return Error(ErrorKind::kInternal, "it was fetched");
  }
  static std::unique_ptr<RawSocket> greet(int port) {
    auto socket = std::make_unique<RawSocket>(port);
    std::string hello;
    while (hello.size() < kBulkHello.size() + kBulkNonce && !socket->closed()) hello += socket->read_until("", 20);
    const std::string mine(kBulkNonce, 'n');
    EXPECT_TRUE(socket->send(mine + bulk_mac("k1", "client", hello.substr(kBulkHello.size()), mine)));
    return socket;
  }
  static std::unique_ptr<RawSocket> ask_and_stop_reading(int port) {
    auto socket = greet(port);
    for (uint64_t piece = 0; piece < 5; ++piece) {
      const auto request = to_bytes(BulkRequest{1, piece});
      EXPECT_TRUE(socket->send({reinterpret_cast<const char*>(request.data()), request.size()}));
    }
    return socket;
  }

  TemporaryFolder folder;
  const std::string bytes;
  BulkServer server;
};

TEST_F(Bulk, AFileComesWholeOverAnyNumberOfConnections) {
  for (const int streams : {1, 3, 16}) {
    BulkFetch fetched = what();
    fetched.streams = streams;
    EXPECT_EQ(fetch(fetched), bytes) << streams;
  }
  for (const size_t size : {size_t{0}, size_t{1}, size_t{kBulkPiece}}) {
    write("small", bytes.substr(0, size));
    server.offer(2, folder.path() / "small");
    EXPECT_EQ(fetch(what(2)), bytes.substr(0, size));
  }
}

TEST_F(Bulk, AFileThatIsUnlinkedStaysUntilTheNext) {
  fs::remove(folder.path() / "one");
  EXPECT_EQ(fetch(what()), bytes);
  write("two", "other");
  server.offer(2, folder.path() / "two");
  EXPECT_EQ(fetch(what(2)), "other");
  const Error error = error_of(what(1));
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("version 1 is no longer there, 2 is"));
}

TEST_F(Bulk, WhatWasAnnouncedIsWaitedForAndWhatWasNotIsNot) {
  EXPECT_EQ(error_of(what(7)).kind(), ErrorKind::kNotFound);
  server.announce(7);
  std::promise<void> asked;
  auto fetched = std::async(std::launch::async, [&] {
    asked.set_value();
    return fetch(what(7));
  });
  asked.get_future().wait();
  write("seven", "7");
  server.offer(7, folder.path() / "seven");
  EXPECT_EQ(fetched.get(), "7");
}

TEST_F(Bulk, WhoAsksAgainForWhatIsToComeIsRememberedOnce) {
  BulkServer late({.key = "k1", .stall_s = 0.2});
  late.announce(1);
  const auto socket = greet(late.port());
  EXPECT_EQ(socket->read_until("", 100).size(), kBulkMac);
  const auto request = to_bytes(BulkRequest{1, kNoPiece});
  for (int times = 0; times < 2; ++times) {
    EXPECT_TRUE(socket->send({reinterpret_cast<const char*>(request.data()), request.size()}));
    while (late.waiting() == 0) std::this_thread::yield();
    EXPECT_EQ(late.waiting(), 1u);
    EXPECT_EQ(socket->read_until("", 1000).size(), kBulkHead);  // that it is not there yet
    EXPECT_EQ(late.waiting(), 0u);
  }
}

TEST_F(Bulk, WithoutTheKeyNothingIsSaid) {
  BulkFetch stranger = what();
  stranger.key = "k2";
  stranger.attempts = 1;
  EXPECT_THAT(error_of(stranger).what(), HasSubstr("hung up at the key"));
  RawSocket raw(server.port());
  EXPECT_EQ(raw.read_until("", 100).size(), kBulkHello.size() + kBulkNonce);
  raw.send(std::string(kBulkNonce + kBulkMac + 3 * kBulkRequest, 'x'));
  EXPECT_EQ(raw.read_all(), "");
  EXPECT_TRUE(raw.closed());
  EXPECT_THROW(BulkServer({.host = "0.0.0.0"}), Error);
}

TEST_F(Bulk, NobodyThereIsNotFound) {
  BulkFetch gone = what();
  gone.port = 1;
  EXPECT_EQ(error_of(gone).kind(), ErrorKind::kNotFound);
}

// Connections that are cut after a random number of bytes, up to a dozen times a file: what comes is whole.
TEST_F(Bulk, ConnectionsThatAreCutGoOnWithWhatIsMissing) {
  std::mt19937_64 random(5);
  int cut = 0;
  for (int round = 0; round < 8; ++round) {
    CuttingProxy proxy(server.port(), [&] { return 1 + random() % (2 * kBulkPiece); }, /*cuts=*/12);
    BulkFetch through = what();
    through.port = proxy.port();
    through.attempts = 20;
    EXPECT_EQ(fetch(through), bytes);
    cut += proxy.cut();
  }
  EXPECT_GT(cut, 8);
}

TEST_F(Bulk, APieceThatWasChangedOnTheWayIsAskedForAgain) {
  CuttingProxy proxy(server.port(), [] { return ~uint64_t{0}; }, 0);
  proxy.spoil(kBulkPiece / 2, /*times=*/2);
  BulkFetch through = what();
  through.port = proxy.port();
  EXPECT_EQ(fetch(through), bytes);
  EXPECT_EQ(proxy.spoiled(), 2);
  proxy.spoil(kBulkPiece / 2, /*times=*/1000);
  const Error error = error_of(through);
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("has checksum"));
}

// Receivers that ask for everything and read nothing, more of them than the server has threads. They take all of its
// places until they are hung up on.
TEST_F(Bulk, WhoStopsReadingDelaysNobodyAndIsHungUpOn) {
  BulkServer few({.key = "k1", .stall_s = 0.5, .connections = 20});
  few.offer(1, folder.path() / "one");
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (const auto& [port, count] : {std::pair{server.port(), 40}, std::pair{few.port(), 20}}) {
    for (int i = 0; i < count; ++i) silent.push_back(ask_and_stop_reading(port));
  }
  EXPECT_EQ(fetch(what()), bytes);  // long before the first is hung up on
  BulkFetch patient = what();
  patient.port = few.port();
  patient.attempts = 100;
  EXPECT_EQ(fetch(patient), bytes);
}

// One whose machine is gone would have its place for ever.
TEST_F(Bulk, WhoAsksForNothingIsHungUpOn) {
  BulkServer few({.key = "k1", .stall_s = 60, .idle_s = 0.5, .connections = 4});
  few.offer(1, folder.path() / "one");
  std::vector<std::unique_ptr<RawSocket>> silent;
  for (int i = 0; i < 4; ++i) silent.push_back(greet(few.port()));
  BulkFetch patient = what();
  patient.port = few.port();
  patient.attempts = 100;
  EXPECT_EQ(fetch(patient), bytes);
}

// Both ends with certificates of one authority, as roles have them.
class BulkTls : public Bulk {
 protected:
  BulkTls() { sealed.offer(1, folder.path() / "one"); }
  TlsFiles issued(const Authority& authority, const std::string& name) const {
    TlsFiles files = authority.issue(name, "IP:127.0.0.1");
    files.ca = ours.file();
    return files;
  }
  BulkFetch with(const std::optional<TlsFiles>& identity) const {
    return {.host = "127.0.0.1",
            .port = sealed.port(),
            .key = "k1",
            .version = 1,
            .stall_s = 5,
            .attempts = 2,
            .tls = identity};
  }
  const Authority ours{folder.path(), "ours"}, others{folder.path(), "others"};
  const TlsFiles engine = issued(ours, "engine");
  BulkServer sealed{{.key = "k1", .tls = issued(ours, "trainer")}};
};

TEST_F(BulkTls, AFileComesWholeWhoeverCutsOrChangesWhatIsOnTheWay) {
  for (const int streams : {1, 5}) {
    BulkFetch fetched = with(engine);
    fetched.streams = streams;
    EXPECT_EQ(fetch(fetched), bytes) << streams;
  }
  std::mt19937_64 random(6);
  CuttingProxy proxy(sealed.port(), [&] { return 1 + random() % (2 * kBulkPiece); }, /*cuts=*/12);
  proxy.spoil(kBulkPiece / 2, /*times=*/2);
  BulkFetch through = with(engine);
  through.port = proxy.port();
  through.attempts = 20;
  EXPECT_EQ(fetch(through), bytes);
  EXPECT_GT(proxy.cut(), 0);
  EXPECT_EQ(proxy.spoiled(), 2);
}

TEST_F(BulkTls, NothingOfItIsOnTheWayAsItIs) {
  const std::string text(kBulkPiece, 'w');
  write("text", text);
  sealed.offer(2, folder.path() / "text");
  server.offer(2, folder.path() / "text");
  for (const bool tls : {false, true}) {
    CuttingProxy proxy(tls ? sealed.port() : server.port(), [] { return ~uint64_t{0}; }, 0);
    proxy.listen_for("wwwwwwww");
    BulkFetch through = with(tls ? std::optional(engine) : std::nullopt);
    through.port = proxy.port();
    through.version = 2;
    EXPECT_EQ(fetch(through), text);
    EXPECT_EQ(proxy.heard(), !tls);
  }
}

TEST_F(BulkTls, WhoDoesNotShowTheRightCertificateIsRefusedInALine) {
  const auto refused = [](const BulkFetch& what) {
    const Error error = error_of(what);
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
    return error;
  };
  TlsFiles nobody;  // believes, and shows nothing
  nobody.ca = ours.file();
  EXPECT_EQ(refused(with(nobody)).kind(), ErrorKind::kUsage);
  EXPECT_THAT(refused(with(nobody)).what(), HasSubstr("takes only clients with a certificate"));
  EXPECT_EQ(refused(with(issued(others, "stranger"))).kind(), ErrorKind::kUsage);
  EXPECT_THAT(refused(with(issued(others, "stranger"))).what(), HasSubstr("its --tls-ca must have signed it"));
  TlsFiles doubting = engine;
  doubting.ca = others.file();
  EXPECT_EQ(refused(with(doubting)).kind(), ErrorKind::kUsage);
  EXPECT_THAT(refused(with(doubting)).what(), HasSubstr("is not signed by an authority of"));
  BulkServer elsewhere({.key = "k1", .tls = ours.issue("elsewhere", "IP:10.1.2.3")});
  BulkFetch other = with(engine);
  other.port = elsewhere.port();
  EXPECT_THAT(refused(other).what(), HasSubstr("is for 10.1.2.3, not for 127.0.0.1"));
  BulkFetch stranger = with(engine);  // to the authority no stranger, and without the key
  stranger.key = "k2";
  EXPECT_THAT(refused(stranger).what(), HasSubstr("hung up at the key"));
}

TEST_F(BulkTls, PlainAndTlsDoNotMix) {
  RawSocket raw(sealed.port());
  raw.send(std::string(kBulkNonce + kBulkMac, 'x'));
  EXPECT_THAT(raw.read_all(), ::testing::Not(HasSubstr(std::string(kBulkHello))));  // an alert at most
  EXPECT_TRUE(raw.closed());
  BulkFetch to_plain = with(engine);
  to_plain.port = server.port();
  const Error error = error_of(to_plain);
  EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  EXPECT_THAT(error.what(), HasSubstr("speaks no TLS"));
  EXPECT_THROW(BulkServer({.key = "k1", .tls = {.cert = folder.path() / "none.pem", .key = "k", .ca = {}}}), Error);
}

TEST_F(Bulk, WhoeverAnswersSomethingElseIsRefused) {
  const BulkHead head{BulkStatus::kHere, 3, 2, 100, 0};
  const auto kind = [](const BulkHead& answer, const BulkRequest& asked, uint64_t total) {
    try {
      bytes_behind(answer, asked, total);
    } catch (const Error& error) {
      return error.kind();
    }
    return ErrorKind::kInternal;
  };
  EXPECT_EQ(kind(head, {3, 1}, 100), ErrorKind::kCorrupt);  // another piece
  EXPECT_EQ(kind(head, {4, 2}, 100), ErrorKind::kCorrupt);  // another version
  EXPECT_EQ(kind(head, {3, 2}, 101), ErrorKind::kCorrupt);  // another size
  EXPECT_EQ(kind({BulkStatus::kReplaced, 5, 2, 0, 0}, {3, 2}, 100), ErrorKind::kNotFound);
  EXPECT_EQ(bytes_behind({BulkStatus::kHere, 3, 1, kBulkPiece + 7, 0}, {3, 1}, kBulkPiece + 7), 7u);
  EXPECT_EQ(bytes_behind({BulkStatus::kHere, 3, kNoPiece, 100, 0}, {3, kNoPiece}, 0), 0u);
  std::array<std::byte, kBulkHead> bytes = to_bytes(head);
  bytes[0] = std::byte{9};
  EXPECT_THROW(bulk_head(bytes), Error);
}

}  // namespace
}  // namespace tritonforge::net
