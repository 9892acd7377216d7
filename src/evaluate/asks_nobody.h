#pragma once
// An evaluator that answers and asks nobody: whoever gets out of a candidate's sandbox into the server finds a process
// that cannot reach another machine, nor another server of this one.
#include <string>

namespace tritonforge::evaluate {

// From here on no thread of this process, and no process that one of them begins, can open a connection or send to
// another machine that has not connected to it; it can listen, accept and answer. Cannot be taken back.
// "enforced: ..." or "unavailable: why", as the layers of the sandbox say it.
std::string ask_nobody();

}  // namespace tritonforge::evaluate
