# The sources that reach a header of libtorch, directly or through ours: they alone get its precompiled header.
find_program(TF_SCAN_PYTHON python3 REQUIRED)
execute_process(COMMAND ${TF_SCAN_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/includes.py torch OUTPUT_VARIABLE TF_TORCH_SOURCES
                OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" TF_TORCH_SOURCES "${TF_TORCH_SOURCES}")
execute_process(COMMAND ${TF_SCAN_PYTHON} ${CMAKE_SOURCE_DIR}/cmake/includes.py check RESULT_VARIABLE includes_wrong
                ERROR_VARIABLE includes_errors)
if(includes_wrong)
  message(FATAL_ERROR "includes leave their folder's DEPS:\n${includes_errors}")
endif()

option(TF_UNITY "compile several files of some folders as one (clang-tidy wants them one by one)" ON)

# tf_library(NAME [UNITY] [EXCLUDE FILE ...] [DEPS ...]): the folder's library from all of its *.cpp. Where one of them
# needs libtorch, the library links it. UNITY compiles several files as one: for folders whose files are small and
# include much.
function(tf_library name)
  cmake_parse_arguments(arg "UNITY" "" "DEPS;EXCLUDE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(file ${arg_EXCLUDE})
    list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
  endforeach()
  if(NOT sources)  # headers only
    add_library(tf_${name} INTERFACE)
    target_include_directories(tf_${name} INTERFACE ${CMAKE_SOURCE_DIR}/src)
    target_link_libraries(tf_${name} INTERFACE ${arg_DEPS})
    return()
  endif()
  add_library(tf_${name} STATIC ${sources})
  target_include_directories(tf_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  target_link_libraries(tf_${name} PUBLIC ${arg_DEPS})
  if(arg_UNITY AND TF_UNITY)
    set_target_properties(tf_${name} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
  tf_torch(tf_${name} PUBLIC ${sources})
endfunction()

# Links libtorch to `target` where one of its sources needs it. Those sources share the precompiled header of ATen (the
# others of such a target go without); a target without libtorch has the one of JSON and formatting.
function(tf_torch target visibility)
  set(torch_sources "")
  foreach(source ${ARGN})
    if(source IN_LIST TF_TORCH_SOURCES)
      list(APPEND torch_sources ${source})
    endif()
  endforeach()
  if(NOT torch_sources)
    tf_precompiled(${target} tf_json_pch "" <fmt/format.h> <nlohmann/json.hpp> <map> <memory> <string> <vector>)
    return()
  endif()
  target_link_libraries(${target} ${visibility} torch)
  # <torch/torch.h> is left to the few that define an autograd::Function: it is twice as large, and reading it costs
  # every file seconds.
  tf_precompiled(${target} tf_torch_pch torch <ATen/ATen.h> <ATen/Parallel.h> <ATen/core/grad_mode.h>)
  set(others ${ARGN})
  list(REMOVE_ITEM others ${torch_sources})
  set_source_files_properties(${others} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()

# One precompiled header `pch`, built once, given to `target`.
function(tf_precompiled target pch library)
  if(NOT TARGET ${pch})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${pch}.cpp CONTENT "")  # not again where it is the same
    add_library(${pch} OBJECT ${CMAKE_BINARY_DIR}/${pch}.cpp)
    target_link_libraries(${pch} PRIVATE fmt::fmt spdlog::spdlog nlohmann_json::nlohmann_json ${library})
    target_compile_definitions(${pch} PRIVATE SPDLOG_FMT_EXTERNAL)
    target_precompile_headers(${pch} PRIVATE ${ARGN})
    target_compile_options(${pch} PRIVATE -fpch-preprocess)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${pch})
  # -fPIC for executables too: with -fPIE the compiler passes the header over.
  target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC)
endfunction()

# Whether one of the project's libraries, or one below it, links libtorch.
function(tf_links_torch target result)
  set(${result} FALSE PARENT_SCOPE)
  get_target_property(libraries ${target} INTERFACE_LINK_LIBRARIES)
  foreach(library ${libraries})
    set(found FALSE)
    if(library MATCHES "^tf_" AND TARGET ${library})
      tf_links_torch(${library} found)
    endif()
    if(found OR library STREQUAL torch)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# tf_unit_tests(FOLDER): one test program from tests/unit/FOLDER/*.cpp. It is one ctest entry: loading libtorch for each
# of its tests would cost minutes (`make test-one TEST=Scheduler.Chunks*` runs single ones).
function(tf_unit_tests folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${folder}/*.cpp)
  if(NOT sources)
    return()
  endif()
  if(TF_SANITIZE STREQUAL "thread")  # libtorch's threads are not instrumented: what they hand over looks like a race
    tf_links_torch(tf_${folder} has_torch)
    if(has_torch)
      return()
    endif()
  endif()
  add_executable(unit_${folder} ${sources})
  target_link_libraries(unit_${folder} PRIVATE tf_${folder} GTest::gtest GTest::gmock GTest::gtest_main)
  target_include_directories(unit_${folder} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  # Only to the sources that name them: the others' objects are found in the compiler cache by every clone.
  foreach(source ${sources})
    file(STRINGS ${source} uses REGEX "TF_(SOURCE_DIR|PYTHON)")
    if(uses)
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_DEFINITIONS TF_SOURCE_DIR="${CMAKE_SOURCE_DIR}"
                   TF_PYTHON="${TRITONFORGE_PYTHON}")
    endif()
  endforeach()
  tf_torch(unit_${folder} PRIVATE ${sources})
  target_compile_options(unit_${folder} PRIVATE $<$<CONFIG:Release>:-O1>)  # compiled a quarter sooner than with -O2
  add_test(NAME unit_${folder} COMMAND ${TF_TEST_LAUNCHER} $<TARGET_FILE:unit_${folder}>)
  # Other tests have the cores, too: a thread of libtorch's that waits for its turn by looking takes them for nothing.
  set_tests_properties(unit_${folder} PROPERTIES TIMEOUT 600 ENVIRONMENT "GOMP_SPINCOUNT=0;${TF_TEST_ENVIRONMENT}")
  add_dependencies(unit_tests unit_${folder})
endfunction()

# tf_embed(TARGET HEADER h NAMESPACE n [PREFIX p] [TABLE t] FILES ...): files become part of the binary. HEADER declares
# `extern const std::string_view` p + the file's name for each, and/or one table t of (name, content):
# `extern const std::span<const std::pair<std::string_view, std::string_view>>`, in the order given.
function(tf_embed target)
  cmake_parse_arguments(arg "" "HEADER;NAMESPACE;PREFIX;TABLE" "FILES" ${ARGN})
  string(REPLACE "::" "_" name "${arg_NAMESPACE}_${arg_PREFIX}${arg_TABLE}")
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  set(script ${CMAKE_SOURCE_DIR}/cmake/embed.cmake)
  add_custom_command(OUTPUT ${output} VERBATIM DEPENDS ${arg_FILES} ${script}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DHEADER=${arg_HEADER} -DNAMESPACE=${arg_NAMESPACE}
            "-DPREFIX=${arg_PREFIX}" "-DTABLE=${arg_TABLE}" "-DFILES=${arg_FILES}" -P ${script})
  target_sources(${target} PRIVATE ${output})
  # Its names are those of every such file.
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()
