# Writes a C++ source that holds files as byte arrays (a string literal has a length limit in some compilers, and its
# text could hold the delimiter). Run by tf_embed (Targets.cmake) at build time:
#   cmake -DOUTPUT=x.cpp -DHEADER=dashboard/page.h -DNAMESPACE=a::b "-DPREFIX=web_" "-DTABLE=" "-DFILES=a;b"
#         -P embed.cmake
set(code "// Made by cmake/embed.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
set(table "")
set(index 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} bytes HEX)
  if(bytes STREQUAL "")
    message(FATAL_ERROR "${file} is empty")
  endif()
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND code "static constexpr char bytes_${index}[] = {  // ${name}\n${bytes}};\n")
  if(PREFIX)
    string(MAKE_C_IDENTIFIER "${PREFIX}${name}" symbol)
    string(APPEND code "const std::string_view ${symbol}(bytes_${index}, sizeof bytes_${index});\n")
  endif()
  string(APPEND table "    {\"${name}\", {bytes_${index}, sizeof bytes_${index}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
if(TABLE)
  string(APPEND code "static constexpr std::pair<std::string_view, std::string_view> table[] = {\n${table}};\n"
                     "const std::span<const std::pair<std::string_view, std::string_view>> ${TABLE}(table);\n")
endif()
file(WRITE ${OUTPUT} "${code}}  // namespace ${NAMESPACE}\n")
