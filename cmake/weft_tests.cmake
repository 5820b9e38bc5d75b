# SPDX-License-Identifier: Apache-2.0
# The unit tests and the developers' tools. They link the objects of libweft, because the library exports only weft_*.
set(users weft_users)
function(add_inner_program name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE weft_base weft_core ${users})
  use_headers(${name} weft_headers)
  target_compile_definitions(${name} PRIVATE WEFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(TARGET weft-codegen)
    add_dependencies(${name} weft-codegen)
  endif()
endfunction()

sources(test_sources tests/unit/*.cpp)
add_inner_program(weft_tests ${test_sources})
target_include_directories(weft_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
add_test(NAME unit COMMAND weft_tests)

# Each tool is a program: tools/kc.cpp becomes weft-kc.
sources(tool_sources tools/*.cpp)
foreach(source IN LISTS tool_sources)
  cmake_path(GET source STEM name)
  add_inner_program(weft-${name} ${source})
endforeach()

# Larger tests and the examples have their own CMakeLists.txt.
file(GLOB folders CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*/CMakeLists.txt ${PROJECT_SOURCE_DIR}/examples/*/CMakeLists.txt)
foreach(file IN LISTS folders)
  cmake_path(GET file PARENT_PATH folder)
  add_subdirectory(${folder})
endforeach()
