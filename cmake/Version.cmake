# What `tritonforge --version` says, from one place each: the number of project() in CMakeLists.txt, the commit of the
# work tree that is built, the build's type. Run as a script (-DOUTPUT=) at every build; the file is written anew only
# where something of it changed. A tree without git (the sources of an archive) has the commit of the variable COMMIT.
if(CMAKE_SCRIPT_MODE_FILE)
  cmake_minimum_required(VERSION 3.25)  # or it warns at every build
  execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(failed)
    set(commit "${COMMIT}")
  endif()
  if(NOT commit)
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} @ONLY CONTENT "// Made by cmake/Version.cmake.
#include \"base/build.h\"

namespace tritonforge {
const BuildInfo& build_info() {
  static const BuildInfo info{\"@VERSION@\", \"@commit@\", \"@TYPE@\"};
  return info;
}
}  // namespace tritonforge
")
  return()
endif()

# In a library of its own, so that a commit relinks what asks for it and nothing else.
set(version_source ${CMAKE_BINARY_DIR}/build_info.cpp)
add_custom_target(version_file BYPRODUCTS ${version_source} VERBATIM
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${CMAKE_SOURCE_DIR} -DOUTPUT=${version_source} -DVERSION=${PROJECT_VERSION}
          -DTYPE=${CMAKE_BUILD_TYPE} -DCOMMIT=${TF_COMMIT} -P ${CMAKE_CURRENT_LIST_FILE})
add_library(version STATIC ${version_source})
target_include_directories(version PRIVATE ${CMAKE_SOURCE_DIR}/src)
add_dependencies(version version_file)
