#include "cli/commands.h"

int main(int argc, char** argv) { return tritonforge::cli::run(argc, argv); }
