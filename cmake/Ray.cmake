# Ray and its C++ API (requirements/ray.txt), in an environment of their own: for tritonforge-ray and the library of its
# actor alone, which have the wheel's C++17 and ABI, and share no library with the rest. Where the wheels are not
# installed, nothing is added (`make ray`).
execute_process(COMMAND ${CMAKE_SOURCE_DIR}/requirements/install --ray-python
                OUTPUT_VARIABLE TF_RAY_PYTHON OUTPUT_STRIP_TRAILING_WHITESPACE)
set(TRITONFORGE_RAY OFF)
if(EXISTS ${TF_RAY_PYTHON} AND NOT TF_SANITIZE)
  execute_process(COMMAND ${TF_RAY_PYTHON} -c
    "import importlib.util, os; print(os.path.dirname(importlib.util.find_spec('ray').origin) + '/cpp')"
    OUTPUT_VARIABLE RAY_CPP_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(EXISTS ${RAY_CPP_DIR}/lib/libray_api.so)
    set(TRITONFORGE_RAY ON)
  endif()
endif()
message(STATUS "Ray: ${TRITONFORGE_RAY}")
