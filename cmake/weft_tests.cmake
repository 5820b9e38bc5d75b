# SPDX-License-Identifier: Apache-2.0
# weft_tests: the unit tests, linked with the objects of libweft rather than the library, to reach what it hides.
sources(test_sources tests/unit/*.cpp)
add_executable(weft_tests ${test_sources})
target_include_directories(weft_tests PRIVATE ${PROJECT_SOURCE_DIR}/tests)
target_compile_definitions(weft_tests PRIVATE WEFT_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
target_link_libraries(weft_tests PRIVATE weft_base)
if(TARGET weft_core)
  target_link_libraries(weft_tests PRIVATE weft_core)
endif()
if(TARGET weft-codegen)
  add_dependencies(weft_tests weft-codegen)
endif()
add_test(NAME unit COMMAND weft_tests)
