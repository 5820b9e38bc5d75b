# SPDX-License-Identifier: Apache-2.0
# The interface library weft_flags: compiler and linker flags for every target of Weft.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

# The build tree has the same layout as an installation, so that libweft finds libweft-codegen beside it in both.
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../lib")

# Less optimisation for code that runs once for each model: such files compile in two thirds of the time.
set(WEFT_RUNS_ONCE $<$<AND:$<CXX_COMPILER_ID:Clang>,$<CONFIG:Release>>:-O1;-mllvm=-inline-threshold=20>)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()

add_library(weft_flags INTERFACE)
target_include_directories(weft_flags INTERFACE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_options(weft_flags INTERFACE -Wall -Wextra $<$<BOOL:${WEFT_WERROR}>:-Werror> -fstack-protector-strong
                                            -ffp-contract=off)
target_compile_definitions(weft_flags INTERFACE _GLIBCXX_ASSERTIONS WEFT_VERSION="${PROJECT_VERSION}")
target_link_options(weft_flags INTERFACE -Wl,-z,relro,-z,now,--as-needed)

if(WEFT_SANITIZE)
  set(WEFT_SANITIZE_FLAGS -fsanitize=${WEFT_SANITIZE})
  # -O0 makes an instrumented build more than twice as fast. Weft optimises the kernels in any case.
  target_compile_options(weft_flags INTERFACE ${WEFT_SANITIZE_FLAGS} -fno-omit-frame-pointer -fno-sanitize-recover=all
                                              -O0 $<IF:$<BOOL:${WEFT_LINES}>,-gline-tables-only,-g0>)
  target_link_options(weft_flags INTERFACE ${WEFT_SANITIZE_FLAGS})
else()
  target_compile_options(weft_flags INTERFACE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  target_link_options(weft_flags INTERFACE -Wl,-z,defs)
endif()

# read_once(NAME FOLDER HEADER...) precompiles the standard library and these headers of FOLDER as NAME, because a build mostly parses
# headers. use_headers(TARGET NAME) uses them. Both have an effect for clang with Ninja only, so every file still includes what it uses.
# Unlike target_precompile_headers(), this puts no path of the source tree into commands, so ccache works across copies of the tree.
# HEADER must not be in the source tree, because a precompiled header holds absolute paths.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang" AND CMAKE_GENERATOR STREQUAL "Ninja")
  find_file(WEFT_STDCPP bits/stdc++.h PATHS ${CMAKE_CXX_IMPLICIT_INCLUDE_DIRECTORIES} NO_DEFAULT_PATH)
endif()

function(read_once name folder)
  if(WEFT_STDCPP)
    set_source_files_properties(${WEFT_STDCPP} PROPERTIES LANGUAGE CXX)
    add_library(${name} OBJECT ${WEFT_STDCPP})
    target_link_libraries(${name} PRIVATE weft_flags)
    target_include_directories(${name} SYSTEM PRIVATE ${folder})
    list(JOIN ARGN " -include " headers)
    add_custom_target(${name}_made DEPENDS $<TARGET_OBJECTS:${name}>)
    target_compile_options(${name} PRIVATE "SHELL:-x c++-header -fpch-instantiate-templates -Xclang -fno-pch-timestamp -include ${headers}")
  endif()
endfunction()

function(use_headers target name)
  if(WEFT_STDCPP)
    cmake_path(RELATIVE_PATH PROJECT_BINARY_DIR BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE top)
    add_dependencies(${target} ${name}_made)
    target_compile_options(${target} PRIVATE $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:-fPIC>
      "SHELL:-include-pch ${top}/CMakeFiles/${name}.dir${WEFT_STDCPP}.o -Xclang -fno-pch-timestamp")
  endif()
endfunction()

# batches(LIST...): with WEFT_BATCHES, replaces the sources in each list by files that include about WEFT_BATCH_SIZE bytes of sources of one folder.
# Headers and templates are then compiled once per batch. CMake's UNITY_BUILD writes absolute paths, which would tie ccache to one tree.
function(batches)
  foreach(list IN LISTS ARGN)
    set(made "")
    foreach(source IN LISTS ${list})
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      string(REGEX MATCH "^(src/frontends/|src/|api/|tests/)?[a-z_]+" folder ${source})
      file(SIZE ${PROJECT_SOURCE_DIR}/${source} size)
      math(EXPR size_${folder} "${size} + 0${size_${folder}}")
      math(EXPR number "${size_${folder}} / ${WEFT_BATCH_SIZE}")
      set(batch ${PROJECT_BINARY_DIR}/generated/${folder}_${number}.cpp)
      string(APPEND text_${batch} "#include \"${source}\"\n")
      list(APPEND made ${batch})
    endforeach()
    list(REMOVE_DUPLICATES made)
    foreach(batch IN LISTS made)
      file(CONFIGURE OUTPUT ${batch} CONTENT "${text_${batch}}")
    endforeach()
    if(WEFT_BATCHES)
      set(${list} ${made} PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

# export_only(TARGET PATTERN): makes a shared library export only the symbols that match the pattern.
function(export_only target pattern)
  set(script ${PROJECT_BINARY_DIR}/generated/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${pattern}; local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--gc-sections)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script})
endfunction()
