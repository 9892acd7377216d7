#pragma once
// Ports of loopback, carried to another machine: what ssh's -L and -R are, for launchers that have no ssh between them.
//
// The head listens once, beyond loopback, for all nodes of a run. A connection that does not begin with a key that it
// knows is closed without an answer. The node's end opens all connections, so that nothing listens there:
//   KEY serve\n         parked until somebody here connects to the port that the node serves; then one byte "+", and
//                       from there on the connection is that client's
//   KEY reach PORT\n    a client of the node's, for a port of this machine that the node was given
// Keys are compared in constant time and given to the node by whoever started it. What goes over the connections is not
// encrypted: the network between the machines is as trusted as the cluster's own.
#include <memory>
#include <string>
#include <vector>

namespace tritonforge::net {

// What the node's end is told.
struct TunnelEnd {
  std::string host, key;  // of the head
  int port = 0;
  int serves = 0;            // a port of the node's loopback that is to be this machine's, too
  std::vector<int> reaches;  // ports of this machine's loopback that are to be the node's, too
};

class TunnelHead {
 public:
  explicit TunnelHead(const std::string& host);  // the address that nodes reach this machine at; throws kUnavailable
  ~TunnelHead();
  TunnelHead(const TunnelHead&) = delete;
  // What the node of `name` needs; an earlier end of that name is closed. Throws kUnavailable where the port is in use.
  TunnelEnd open(const std::string& name, int serves, const std::vector<int>& reaches);
  void close(const std::string& name);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The node's end; it tries to reach the head for as long as it lives.
class TunnelNode {
 public:
  explicit TunnelNode(const TunnelEnd& end);  // throws kUnavailable where a port is in use
  ~TunnelNode();
  TunnelNode(const TunnelNode&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tritonforge::net
