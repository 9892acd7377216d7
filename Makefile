# The human front door: every target installs what it needs, then calls CMake and the built program.
BUILD ?= build
JOBS ?= $(shell nproc)
RECIPE ?= recipes/quickstart.yaml

.PHONY: help install build gpu test bench lint format clean quickstart quickstart-gpu

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install:  ## installs missing Debian packages and the Python environment
	@requirements/install

build: install  ## builds ./build/tritonforge and all tests
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	@cmake --build $(BUILD) -j $(JOBS)

gpu:  ## installs the CUDA compiler (115 MB of wheels) and builds the GPU kernels: libtritonforge_cuda.so
	@requirements/install --cuda
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	@cmake --build $(BUILD) -j $(JOBS) --target tritonforge_cuda

test: build  ## builds and passes all tests
	@cd $(BUILD) && ctest --output-on-failure -j $(JOBS)

bench: build  ## builds the benchmarks and runs each beside its peer
	@cmake --build $(BUILD) -j $(JOBS) --target benchmarks
	@bench/run $(BUILD)

lint: build  ## clang-tidy over src/
	@command -v run-clang-tidy >/dev/null || { echo "lint needs: apt-get install clang-tidy" >&2; exit 3; }
	@run-clang-tidy -quiet -p $(BUILD) '$(CURDIR)/src/.*\.cpp$$'

format:  ## clang-format over the C++ lines changed since the last commit
	@command -v git-clang-format >/dev/null || { echo "format needs: apt-get install clang-format" >&2; exit 3; }
	@git clang-format -q -f HEAD -- src tests bench || test $$? -eq 1

quickstart: install  ## installs, builds, and trains a tiny model end to end (about ten minutes on two cores)
	@cmake -S . -B $(BUILD) -G Ninja >/dev/null && cmake --build $(BUILD) -j $(JOBS) --target tritonforge
	@./tritonforge run $(RECIPE)

quickstart-gpu: install  ## the same path with a real 0.5B model on one GPU
	@$(MAKE) quickstart RECIPE=recipes/qwen2.5-coder-0.5b.yaml

clean:  ## removes the build folder (the Python environment and compiler cache stay)
	@rm -rf $(BUILD)
