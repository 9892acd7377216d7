# -DTF_SANITIZE=address (with undefined behaviour and leaks) or thread: `make asan`, `make tsan`. At -O1, every finding
# ends the program. docs/developing.md says what thread leaves out, and why.
set(TF_SANITIZE "" CACHE STRING "address (with undefined), thread, or nothing")
set_property(CACHE TF_SANITIZE PROPERTY STRINGS "" address thread)
set(TF_TEST_LAUNCHER "")
set(TF_TEST_ENVIRONMENT "")
if(NOT TF_SANITIZE)
  return()
endif()

set(suppressions ${CMAKE_SOURCE_DIR}/tests/sanitizers)
if(TF_SANITIZE STREQUAL "address")
  set(checks address,undefined)
  # The worker's Python and libtorch are not instrumented: a container that they fill looks overflown.
  list(APPEND TF_TEST_ENVIRONMENT "ASAN_OPTIONS=detect_container_overflow=0:detect_stack_use_after_return=1"
       "UBSAN_OPTIONS=print_stacktrace=1" "LSAN_OPTIONS=suppressions=${suppressions}/leaks.txt:print_suppressions=0")
elseif(TF_SANITIZE STREQUAL "thread")
  set(checks thread)
  list(APPEND TF_TEST_ENVIRONMENT
       "TSAN_OPTIONS=halt_on_error=1:die_after_fork=0:second_deadlock_stack=1:suppressions=${suppressions}/threads.txt")
  # Its runtime cannot place its shadow where addresses are randomised by more than 28 bits.
  file(READ /proc/sys/vm/mmap_rnd_bits random_bits)
  if(random_bits GREATER 28)
    find_program(SETARCH setarch REQUIRED)
    set(TF_TEST_LAUNCHER ${SETARCH} ${CMAKE_HOST_SYSTEM_PROCESSOR} -R)
  endif()
else()
  message(FATAL_ERROR "TF_SANITIZE '${TF_SANITIZE}' is unknown (known: address, thread)")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O1 -g1 -fno-omit-frame-pointer")
# The worker's Python is not instrumented and cannot load the libtritonforge_replay.so that is.
list(APPEND TF_TEST_ENVIRONMENT
     "GTEST_FILTER=-EvaluatorTest.*:Probe.*:ReferenceCacheTest.*:SelfTestOfAChild.*:ZygoteTest.*")
add_compile_options(-fsanitize=${checks} -fno-sanitize-recover=all)
add_link_options(-fsanitize=${checks})
