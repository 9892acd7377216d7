#include "unit/orchestrate/peers_fixture.h"

namespace tritonforge::orchestrate {
namespace {

constexpr const char* kProcess = R"(
import http.server, json, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write(json.dumps({"status": "green", "instance": os.environ["TRITONFORGE_INSTANCE"]}).encode())
    def log_message(self, *a): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
)";

}  // namespace

Role PeersTest::role(const std::string& name) {
  const int port = free_port();
  RoleSpec spec;
  spec.name = name;
  spec.argv = {TF_PYTHON, "-c", kProcess, std::to_string(port)};
  spec.url = fmt::format("http://127.0.0.1:{}", port);
  spec.ready_timeout_s = 30;
  std::vector<RoleSpec> specs;
  specs.push_back(std::move(spec));
  supervisor.start(std::move(specs));
  return Role(supervisor, name, http.url());
}

}  // namespace tritonforge::orchestrate
