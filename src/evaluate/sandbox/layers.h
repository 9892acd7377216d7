#pragma once
// The layers of the sandbox, each reported as "enforced ..." or "unavailable: why". Options are the JSON object that
// src/evaluate/zygote.cpp writes:
//   folder      the job's private writable folder          root       an empty folder for the new root
//   read_only   paths that stay visible, read-only         devices    device nodes that stay (live mode)
//   processes   may fork and exec (compiler, live mode)    exec       paths that may be executed then
//   native      may map machine code from its folder
//   rlimits     {cpu, fsize, nproc, nofile, core, as_extra}
//   spared_processor  its number: the child runs on the others alone; -1 for none
//   control_group  folder of the group that the child begins in (control_group.h); empty: the parent's
#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tritonforge::sandbox {
using Json = nlohmann::json;

// A new root of read-only binds, private /tmp-like job folder, own /proc, minimal /dev. Needs a mount namespace.
std::string build_root(const Json& options);
// Landlock: reads where allowed, writes in the job's folder only, no TCP.
std::string restrict_files(const Json& options);
// seccomp: a list of calls that are allowed (with a GPU, whose driver has its own, of calls that are not): no sockets,
// no tracing, no namespaces, no kernel interfaces; no fork and exec unless `processes`.
std::string restrict_calls(const Json& options, bool own_pid_namespace);
// In the parent: makes the list once for all children with such options.
void prepare_calls(const Json& options);
bool deny_new_processes();
// As fork, into namespaces of the child's own; the parent gets its pidfd. -1 and errno where there is no child.
pid_t fork_apart(const Json& options, int* pidfd);

}  // namespace tritonforge::sandbox
