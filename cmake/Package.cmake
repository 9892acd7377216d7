# `cmake --install BUILD --prefix FOLDER --component runtime --strip`: what runs on another machine, without what the
# Debian packages and the Python environment bring (package/build adds the first, the wheel asks for the second). Own
# libraries are found beside the program, Debian's in lib/, torch's in the Python environment where the wheel lies in
# its site-packages; elsewhere the launcher names torch's folder.
set(runtime tritonforge tritonforge_torch tritonforge_sandbox tritonforge_held tritonforge_replay)
if(TRITONFORGE_PARQUET)
  list(APPEND runtime tritonforge_parquet)
endif()
if(TRITONFORGE_CUDA)
  list(APPEND runtime tritonforge_cuda)
endif()
foreach(target ${runtime})
  set_target_properties(${target} PROPERTIES INSTALL_RPATH
    "$ORIGIN/lib;$ORIGIN/../../torch/lib;$ORIGIN/../../nvidia/cu13/lib;$ORIGIN/../../pyarrow")
endforeach()
install(TARGETS ${runtime} COMPONENT runtime RUNTIME DESTINATION bin LIBRARY DESTINATION bin)
install(DIRECTORY worker recipes problems models docs COMPONENT runtime DESTINATION . PATTERN __pycache__ EXCLUDE)
install(FILES LICENSE README.md CHANGELOG.md COMPONENT runtime DESTINATION .)
