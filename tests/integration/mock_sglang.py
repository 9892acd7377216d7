"""A server with SGLang's endpoints for weights and no model behind them, which answers as SGLang 0.5.15 was seen to
(test_stock_sglang.py): it receives through torch.distributed. Beside SGLang's, `GET /mock` says which endpoints were
called, `POST /generating {"requests"}` how many requests are under way, `POST /fail {"fails"}` has the updates that
follow end with 400, and `POST /save {"path"}` writes what came. An argument is the key that SGLang's then ask for. It
prints its URL."""

import contextlib
import http.server
import json
import os
import sys

import torch
import torch.distributed as dist
from safetensors.torch import save_file

from sglang_client import init_custom_process_group


class MockSglang:
    def __init__(self, key=None):
        self.weights, self.calls, self.groups, self.version, self.fails = {}, [], {}, "default", False
        self.requests = 0
        mock = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self, status, body):
                text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-type", "text/plain" if isinstance(body, str) else "application/json")
                self.send_header("content-length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def refuses(self):
                """As SGLang's do who comes without their key."""
                refused = key and self.headers["authorization"] != f"Bearer {key}"
                if refused:
                    self.answer(401, {"error": "Unauthorized"})
                return refused

            def do_GET(self):
                if self.path == "/mock":
                    self.answer(200, {"weight_version": mock.version, "calls": mock.calls})
                elif not self.refuses():
                    known = self.path == "/server_info"
                    self.answer(200 if known else 404, {"tp_size": 1} if known else {"detail": "Not Found"})

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])) or b"{}")
                if self.path not in ("/fail", "/save", "/generating"):
                    if self.refuses():
                        return
                    mock.calls.append(self.path)
                success, said = getattr(mock, self.path[1:])(**body)
                if self.path in ("/pause_generation", "/continue_generation"):
                    said = {"message": said, "status": "ok"}
                elif self.path != "/flush_cache":  # whose answer is a text
                    said = {"success": success, "message": said}
                self.answer(200 if success else 400, said)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def fail(self, fails):
        self.fails = fails
        return True, ""

    def save(self, path):
        save_file(self.weights, path)
        return True, ""

    def generating(self, requests):
        self.requests = requests
        return True, ""

    def pause_generation(self, mode="abort"):
        assert mode in ("abort", "retract", "in_place")
        if mode == "abort":
            self.requests = 0
        return True, "Generation paused successfully."

    def continue_generation(self):
        return True, "Generation continued successfully."

    def flush_cache(self):
        return (False, "Flush cache failed.\n") if self.requests else (True, "Cache flushed.\n")

    def init_weights_update_group(
        self, master_address, master_port, rank_offset, world_size, group_name="weight_update_group", backend="nccl"
    ):
        self.groups[group_name] = init_custom_process_group(
            master_address, master_port, world_size, rank_offset, group_name, backend
        )
        return True, "Succeeded to initialize custom process group."

    def destroy_weights_update_group(self, group_name="weight_update_group"):
        group = self.groups.pop(group_name, None)
        if group is None:
            return False, "The group to be destroyed does not exist."
        with contextlib.suppress(RuntimeError):
            dist.destroy_process_group(group)
        return True, ""

    def update_weights_from_distributed(
        self,
        names,
        dtypes,
        shapes,
        group_name="weight_update_group",
        flush_cache=True,
        abort_all_requests=False,
        weight_version=None,
        load_format=None,
    ):
        received = []
        for name, dtype, shape in zip(names, dtypes, shapes, strict=True):
            tensor = torch.empty(shape, dtype=getattr(torch, dtype))
            dist.broadcast(tensor, 0, group=self.groups[group_name])
            received.append((name, tensor))
        if self.fails:
            return False, "Failed to update parameter online: no room."
        self.weights.update(received)
        self.version = weight_version or self.version
        if flush_cache and self.requests:
            os._exit(1)  # "AssertionError: Cache flush failed after updating weights": its scheduler ends, and it
        return True, "Succeeded to update parameter online."


if __name__ == "__main__":
    served = MockSglang(*sys.argv[1:])
    print(served.url, flush=True)
    served.server.serve_forever()
