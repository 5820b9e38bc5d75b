# SPDX-License-Identifier: Apache-2.0
# cmake -DOUT=x.cpp -DROOT=src -DFILES=a|b -P embed_files.cmake: writes the files into a table of string literals.
string(REPLACE "|" ";" files "${FILES}")
list(SORT files)
list(LENGTH files count)
set(text "// made by cmake/embed_files.cmake\n#include \"codegen/embedded.h\"\n#include <array>\n\n")
string(APPEND text "namespace weft::codegen {\n\nnamespace {\nusing namespace std::string_view_literals;  // the compiler counts no letters\n"
       "constexpr std::array<EmbeddedFile, ${count}> files{{\n")
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} body)
  string(APPEND text "{\"${file}\", R\"weft~~~(${body})weft~~~\"sv},\n")
endforeach()
string(APPEND text "}};\n}  // namespace\n\nstd::span<const EmbeddedFile> embedded_files() { return files; }\n\n")
string(APPEND text "}  // namespace weft::codegen\n")
file(WRITE ${OUT} "${text}")
