# SPDX-License-Identifier: Apache-2.0
# Compiler and linker flags that every target of Weft shares, as the interface library weft_flags.
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

# One layout for the build tree and for an installation, so that libweft finds libweft-codegen beside it in both.
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/../lib")

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

set(WEFT_SANITIZE_FLAGS)
if(WEFT_SANITIZE)
  set(WEFT_SANITIZE_FLAGS -fsanitize=${WEFT_SANITIZE})
  # Without optimisation an instrumented build takes less than half the time, and kernels are optimised all the same.
  target_compile_options(weft_flags INTERFACE ${WEFT_SANITIZE_FLAGS} -fno-omit-frame-pointer -fno-sanitize-recover=all
                                              -O0 -gline-tables-only)
  target_link_options(weft_flags INTERFACE ${WEFT_SANITIZE_FLAGS})
  # Run-time compiled kernels are instrumented to match; the code generator reads this.
  target_compile_definitions(weft_flags INTERFACE WEFT_SANITIZE="${WEFT_SANITIZE}")
else()
  target_compile_options(weft_flags INTERFACE $<$<CONFIG:Release>:-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2>)
  target_link_options(weft_flags INTERFACE -Wl,-z,defs)
endif()

# read_once(TARGET HEADER...): where nothing is optimised, reading headers is most of the work. The release build does
# without, where every file must include what it uses.
function(read_once target)
  if(WEFT_SANITIZE OR CMAKE_BUILD_TYPE STREQUAL "Debug")
    target_precompile_headers(${target} PRIVATE <algorithm> <array> <atomic> <chrono> <cmath> <functional> <map> <memory>
      <mutex> <optional> <set> <span> <string> <unordered_map> <variant> <vector> ${ARGN})
  endif()
endfunction()

# export_only(TARGET PATTERN): a shared library shows just the symbols of one pattern.
function(export_only target pattern)
  set(script ${PROJECT_BINARY_DIR}/generated/${target}.map)
  file(CONFIGURE OUTPUT ${script} CONTENT "{ global: ${pattern}; local: *; };\n")
  target_link_options(${target} PRIVATE -Wl,--version-script=${script} -Wl,--gc-sections)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${script})
endfunction()
