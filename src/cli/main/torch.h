#pragma once
// libtritonforge_torch.so: the program with all of its commands. It and the program are of one build.
inline constexpr const char* kTorchLibrary = "libtritonforge_torch.so";

extern "C" int tritonforge_torch_run(int argc, char** argv);
