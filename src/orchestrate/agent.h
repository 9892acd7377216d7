#pragma once
// What runs on another host for a role: `tritonforge agent` reads one line of JSON from its standard input, starts that
// process, and passes on what comes after, a line each: "signal 15". Where its input ends, or has been silent for 30 s
// (silence_s of the job; every 5 s comes "alive"), since whoever asked for the process is gone or cut off, the process
// is killed. What the process prints is its standard error; on its standard output it says
// one line at the end, "exited 0", and it ends as the process did. Carriers (ssh, a cluster's own means) bring the
// input there and need to know nothing of it. Where the carrier carries no ports, the job names a tunnel
// (net/tunnel.h), of which the agent is the node's end.
#include <optional>
#include <string>
#include <vector>

#include "base/process.h"
#include "net/tunnel.h"
#include "orchestrate/launcher.h"

namespace tritonforge::orchestrate {

// Starts `carrier`, which runs an agent, and tells it to start what `options` say. Output goes to options.stdout_file.
Launched::Member carried(const ProcessOptions& options, const Carrier& carrier, const Place& place);
void tell_agent(int control, int signal);
// How the process ended, where the agent has said so; closes `report` and makes it -1 at its end.
std::optional<int> read_report(int& report);

// The agent itself, over `input`. Returns the exit code; 255, which carriers use for themselves, becomes 254.
int run_agent(int input);

}  // namespace tritonforge::orchestrate
