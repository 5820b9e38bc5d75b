# SPDX-License-Identifier: Apache-2.0
# embed_texts(OUT HEADER NAMESPACE NAME=FILE...): a source file that defines `std::string_view NAME()` with a file's text
# for each pair, as HEADER declares them; remade when one of the files changes.
if(CMAKE_SCRIPT_MODE_FILE)
  set(text "// made by cmake/embed_texts.cmake\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n")
  string(REPLACE "|" ";" pairs "${PAIRS}")
  foreach(pair IN LISTS pairs)
    string(REGEX MATCH "^([a-z_]+)=(.*)$" found "${pair}")
    set(name ${CMAKE_MATCH_1})
    file(READ ${CMAKE_MATCH_2} body)
    string(APPEND text "std::string_view ${name}() {\n  return R\"weft~~~(${body})weft~~~\";\n}\n\n")
  endforeach()
  file(WRITE ${OUT} "${text}}  // namespace ${NAMESPACE}\n")
  return()
endif()

function(embed_texts out header namespace)
  cmake_path(GET header STEM name)
  set(made ${PROJECT_BINARY_DIR}/generated/${name}.cpp)
  list(JOIN ARGN "|" pairs)
  list(TRANSFORM ARGN REPLACE "^[a-z_]+=" "" OUTPUT_VARIABLE files)
  add_custom_command(OUTPUT ${made} VERBATIM
    COMMAND ${CMAKE_COMMAND} -DOUT=${made} -DHEADER=${header} -DNAMESPACE=${namespace} "-DPAIRS=${pairs}"
            -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
    WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
    DEPENDS ${files} cmake/embed_texts.cmake COMMENT "Embedding ${files}")
  set(${out} ${made} PARENT_SCOPE)
endfunction()
