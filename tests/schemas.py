"""Holds what servers answer and what files hold against the schemas that `tritonforge schema` prints."""

import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(os.environ.get("TRITONFORGE_ROOT", pathlib.Path(__file__).resolve().parents[1]))
BINARY = os.environ.get("TRITONFORGE_BINARY", str(ROOT / "build/tritonforge"))

# In a folder of its own: another list of the environment's packages would be another environment, and another build.
FOLDER = subprocess.run([ROOT / "requirements/install", "--schemas"], capture_output=True, text=True, check=True)
sys.path.append(FOLDER.stdout.strip())
import jsonschema


def schema_of(name):
    printed = subprocess.run([BINARY, "schema", name], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(printed.stdout)


class Unfit(AssertionError):
    """Where a document is not what its schema says."""


def check(document, schema):
    for error in jsonschema.Draft202012Validator(schema).iter_errors(document):
        raise Unfit(f"{error.json_path}: {error.message[:500]}")


def check_schema(schema):
    jsonschema.Draft202012Validator.check_schema(schema)


class Api:
    """What a role's OpenAPI document says of its endpoints."""

    def __init__(self, role):
        document = schema_of(role)
        self.paths = document["paths"]
        self.forwards = "x-other-paths" in document
        self.definitions = closed(document["components"])

    def operation(self, method, target):
        """That of a path, whose {parts} match one segment; a literal one first."""
        path = target.partition("?")[0]
        for known in sorted(self.paths, key=lambda path: "{" in path):
            if re.fullmatch(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(known)), path):
                return self.paths[known].get(method.lower())
        return None

    def fits(self, method, target, status, text):
        """The reply is what the document says. What is not there has an error as all others."""
        operation = self.operation(method, target)
        if operation is None and self.forwards and status == 200:
            return  # an engine's
        content = (operation or self.operation("GET", "/routes"))["responses"]
        content = content["200" if status == 200 else "default"]["content"].get("application/json")
        assert content, f"{method} {target} has JSON that its document does not know: {text}"
        check(json.loads(text), {**closed(content["schema"]), "components": self.definitions})

    def has(self, routes, role="all"):
        """The routes of a running server are those of the document."""
        documented = {
            (method.upper(), path)
            for path, methods in self.paths.items()
            for method, operation in methods.items()
            if role in operation.get("x-roles", [role if role in ("all", "perf") else ""])
            or path in ("/health", "/metrics", "/routes")
        }
        any_method = {path for method, path in routes if method == "*"}
        if self.forwards:
            assert "/*" in any_method
        there = {route for route in routes if route[0] != "*"}
        there |= {(method, path) for method, path in documented if path in any_method}
        assert there == documented, f"of one side only: {sorted(there ^ documented)}"
        assert any_method - {"/*"} <= {path for _, path in documented}


def closed(schema):
    """The same with no property beside those that are told."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in schema.items()}
    if isinstance(schema.get("properties"), dict) and schema.get("type") == "object":
        inner.setdefault("additionalProperties", False)
    return inner
