#pragma once
// What each server answers, as an OpenAPI 3.1 document (docs/reference/). A server's endpoints are described in
// api/ROLE.yaml, part of the program; what all servers have is in api/common.yaml, and bodies that are structs of the
// contract are made from their own lists of fields. GET /routes of a running server lists what it really has:
// tests/golden compares the two, and holds every reply against its schema.
//
//   paths:
//     POST /v2/leases/{id}/commit:
//       says: trained and checkpointed, never given again
//       query: {verbose~: bool}            beside it: `takes`, the body; `forms`, other content types of it
//       takes: {step: integer}
//       gives: {lease_id: text, state: text -- "committed"}      `also`: other content types
//   types:
//     Name: a type
//
// A type is text, integer, number, bool, object, any, null, =word (that word alone), a name of `types` or of the
// contract, several of them joined by " | ", then " -- " and what it is; [T] a list, [T, U] either; {name: T} an
// object, {name~: T} where it may be absent, {"*": T} from texts to T.
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"

namespace tritonforge::cli {

extern const std::span<const std::pair<std::string_view, std::string_view>> api_files;  // (file name, content)

std::vector<std::string> api_roles();  // "buffer", "engine", ...
// Throws kCorrupt where api/ROLE.yaml has not the form above: no input, part of the program.
Json openapi_document(const std::string& role);

}  // namespace tritonforge::cli
