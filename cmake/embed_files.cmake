# SPDX-License-Identifier: Apache-2.0
# embed_files(OUT HEADER NAMESPACE FUNCTION ROOT FILE...): sets OUT to a source file that defines FUNCTION(), declared in HEADER. FUNCTION
# returns a table of the files, by name relative to ROOT, in the order of names. The source is made again when a file changes.
if(CMAKE_SCRIPT_MODE_FILE)
  string(REPLACE "|" ";" files "${FILES}")
  list(SORT files)
  list(LENGTH files count)
  string(CONCAT text "// made by cmake/embed_files.cmake\n#include \"${HEADER}\"\n#include <array>\n\nnamespace ${NAMESPACE} {\n\n"
         "namespace {\nusing namespace std::string_view_literals;  // the compiler counts no letters\n"
         "constexpr std::array<EmbeddedFile, ${count}> files{{\n")
  foreach(file IN LISTS files)
    file(READ ${ROOT}/${file} body)
    string(APPEND text "{\"${file}\", R\"weft~~~(${body})weft~~~\"sv},\n")
  endforeach()
  string(APPEND text "}};\n}  // namespace\n\nstd::span<const EmbeddedFile> ${FUNCTION}() { return files; }\n\n")
  file(WRITE ${OUT} "${text}}  // namespace ${NAMESPACE}\n")
  return()
endif()

function(embed_files out header namespace function root)
  set(made ${PROJECT_BINARY_DIR}/generated/${function}.cpp)
  list(JOIN ARGN "|" joined)
  list(TRANSFORM ARGN PREPEND ${root}/ OUTPUT_VARIABLE paths)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_files.cmake)
  add_custom_command(OUTPUT ${made} VERBATIM DEPENDS ${paths} ${script} COMMENT "Embedding ${function}"
    COMMAND ${CMAKE_COMMAND} -DOUT=${made} -DHEADER=${header} -DNAMESPACE=${namespace} -DFUNCTION=${function} -DROOT=${root}
            "-DFILES=${joined}" -P ${script})
  set(${out} ${made} PARENT_SCOPE)
endfunction()
