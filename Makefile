# The human front door: every target installs what it needs, then calls CMake and the built program.
BUILD ?= build
JOBS ?= $(shell nproc)
RECIPE ?= recipes/quickstart.yaml
TIDY ?= 150

.PHONY: help install dev languages build gpu ray test test-one package chaos bench lint format asan tsan mutants
.PHONY: clean quickstart quickstart-gpu

help:  ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install:  ## installs missing Debian packages and the Python environment
	@requirements/install

dev:
	@requirements/install --dev

languages:  ## installs PoCL and clang (Debian packages, 500 MB): candidates in OpenCL C and HIP C++
	@requirements/install --languages

build: install  ## builds ./build/tritonforge and all tests
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	@cmake --build $(BUILD) -j $(JOBS)

gpu:  ## installs the CUDA compiler (115 MB of wheels) and builds the GPU kernels: libtritonforge_cuda.so
	@requirements/install --cuda
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	@cmake --build $(BUILD) -j $(JOBS) --target tritonforge_cuda

ray: install  ## installs Ray and its C++ API (110 MB of wheels) and builds tritonforge-ray: run --launcher ray
	@requirements/install --ray >/dev/null
	@cmake -S . -B $(BUILD) -G Ninja >$(BUILD).configure.log 2>&1 || { cat $(BUILD).configure.log; exit 1; }
	@rm -f $(BUILD).configure.log
	@cmake --build $(BUILD) -j $(JOBS) --target tritonforge tritonforge-ray tritonforge_ray_actor

test: build  ## builds and passes all tests
	@# One more than there are cores: a third of what tests last is waiting for processes.
	@cd $(BUILD) && ctest --output-on-failure -j $$(($(JOBS) + 1))

test-one: install  ## one test: TEST=Scheduler.Chunks* or a pytest path, a golden file, a fuzz target
	@JOBS=$(JOBS) python3 tools/test_one.py '$(TEST)' $(BUILD)

package: build  ## makes dist/tritonforge-*.whl and dist/tritonforge-*.tar.gz, which run without a compiler
	@package/build $(BUILD) dist

chaos: install  ## faults at random instants of small runs: SEED=1 FAULTS=24 VARIANT=plain (tests/chaos/chaos.py)
	@cmake -S . -B $(BUILD) -G Ninja >/dev/null && cmake --build $(BUILD) -j $(JOBS) --target tritonforge
	@TRITONFORGE_BINARY=$(abspath $(BUILD))/tritonforge \
		python3 tests/chaos/chaos.py --seed $(or $(SEED),1) --faults $(or $(FAULTS),24) \
		--variant $(or $(VARIANT),plain)

bench: build  ## builds the benchmarks and runs each beside its peer
	@cmake --build $(BUILD) -j $(JOBS) --target benchmarks
	@bench/run $(BUILD)

lint: install dev  ## layout, width, clang-tidy of changed files (TIDY=all: however long), ruff, shellcheck, includes
	@python3 tools/lint.py --tidy $(TIDY)

format: dev  ## lays out all C++, Python and Markdown with the pinned tools
	@python3 tools/lint.py --format

asan: install  ## the unit tests under AddressSanitizer and UndefinedBehaviorSanitizer, in build-asan
	@$(MAKE) --no-print-directory sanitized CHECK=address FOLDER=build-asan

tsan: install  ## those without libtorch under ThreadSanitizer, in build-tsan
	@$(MAKE) --no-print-directory sanitized CHECK=thread FOLDER=build-tsan

.PHONY: sanitized
sanitized:
	@cmake -S . -B $(FOLDER) -G Ninja -DTF_SANITIZE=$(CHECK) >$(FOLDER).log 2>&1 || { cat $(FOLDER).log; exit 1; }
	@rm -f $(FOLDER).log
	@cmake --build $(FOLDER) -j $(JOBS) --target unit_tests
	@cd $(FOLDER) && ctest --output-on-failure -R '^unit_'

mutants: install  ## wrong lines, each of which a test must find, in build-mutants (PART=credit: one part)
	@JOBS=$(JOBS) python3 tests/mutants/run.py $(if $(PART),--part $(PART))

quickstart: install  ## installs, builds, and trains a tiny model end to end (training: 7 minutes on two free cores)
	@cmake -S . -B $(BUILD) -G Ninja >/dev/null && cmake --build $(BUILD) -j $(JOBS) --target tritonforge
	@./tritonforge run $(RECIPE)

quickstart-gpu: install  ## the same path with a real 0.5B model on one GPU
	@$(MAKE) quickstart RECIPE=recipes/qwen2.5-coder-0.5b.yaml

clean:  ## removes the build folders (the Python environment and compiler cache stay)
	@rm -rf $(BUILD) build-asan build-tsan build-lint build-mutants
