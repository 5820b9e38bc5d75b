# SPDX-License-Identifier: Apache-2.0
# libweft-codegen: clang, LLVM and lld linked statically into one shared library that exports only weft_codegen_*.
# All build rules that depend on LLVM are in this file, trim_llvm.sh and tests/amdemu.
find_program(LLVM_CONFIG NAMES llvm-config-19 llvm-config-20 llvm-config-21 llvm-config-22
             DOC "llvm-config of LLVM 19 to 22" REQUIRED)

function(ask_llvm out)
  execute_process(COMMAND ${LLVM_CONFIG} --link-static ${ARGN} OUTPUT_VARIABLE answer
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(${out} ${answer} PARENT_SCOPE)
endfunction()

# The archives of clang that a compiler needs (not the static analyser), and those of lld's ELF linker.
set(clang_archives
    clangFrontend clangCodeGen clangParse clangSema clangSerialization clangDriver clangEdit clangAnalysis
    clangASTMatchers clangAST clangLex clangBasic clangAPINotes clangSupport clangExtractAPI clangInstallAPI
    clangIndex clangRewrite clangRewriteFrontend clangToolingCore lldELF lldCommon)
set(targets X86 AArch64 AMDGPU NVPTX)
set(llvm_components ${targets} passes lto coverage frontendhlsl frontendopenmp frontenddriver windowsdriver option)

function(add_codegen_library)
  ask_llvm(version --version)
  ask_llvm(include_folder --includedir)
  ask_llvm(library_folder --libdir)
  ask_llvm(llvm_archives --libfiles ${llvm_components})
  separate_arguments(llvm_archives)
  foreach(name IN LISTS clang_archives)
    if(EXISTS ${library_folder}/lib${name}.a)
      list(PREPEND llvm_archives ${library_folder}/lib${name}.a)
    endif()
  endforeach()
  # Polly comes last: else the linker would take a file of Polly for a template instance that LLVM's archives define too.
  set(polly ${llvm_archives})
  list(FILTER polly INCLUDE REGEX libPolly)
  list(FILTER llvm_archives EXCLUDE REGEX libPolly)
  list(APPEND llvm_archives ${polly})
  message(STATUS "embedding clang, LLVM and lld ${version} from ${library_folder}")

  sources(codegen_sources src/codegen/*.cpp)
  batches(codegen_sources)
  file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/kernels/*.h
       ${PROJECT_SOURCE_DIR}/src/ops/*.kernel.h ${PROJECT_SOURCE_DIR}/src/ops/elementwise.def)
  embed_files(embedded codegen/embedded.h weft::codegen embedded_files ${PROJECT_SOURCE_DIR}/src ${headers})
  set(left_out ${PROJECT_BINARY_DIR}/generated/left_out.cpp)
  set(trim ${PROJECT_SOURCE_DIR}/cmake/trim_llvm.sh)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${trim})
  execute_process(COMMAND ${trim} ${left_out} ${LLVM_CONFIG} "${targets}" COMMAND_ERROR_IS_FATAL ANY)
  add_library(weft-codegen SHARED ${codegen_sources} ${embedded} ${left_out})
  target_compile_options(weft-codegen PRIVATE ${WEFT_RUNS_ONCE})
  target_include_directories(weft-codegen SYSTEM PRIVATE ${include_folder})
  if(NOT WEFT_BATCHES)
    read_once(clang_headers ${include_folder} clang/Frontend/CompilerInstance.h llvm/IR/Module.h llvm/Target/TargetMachine.h)
    use_headers(weft-codegen clang_headers)
  endif()
  list(JOIN llvm_archives "," group)
  target_link_libraries(weft-codegen PRIVATE weft_base "$<LINK_GROUP:RESCAN,${group}>" z zstd)
  # lld links in seconds; GNU ld takes minutes. lld also ignores undefined symbols of removed sections, so libraries that
  # only removed sections need (z3, libxml2) are not linked.
  # --icf=all saves 8 MB. With -O2, strings that end alike share bytes, which saves 0.5 MB in a compressed wheel.
  # -z pack-relative-relocs would save 9 MB more (1 MB in a wheel), but it needs glibc 2.36, which Ubuntu 22.04 lacks.
  target_link_options(weft-codegen PRIVATE -fuse-ld=lld $<$<CXX_COMPILER_ID:GNU>:-B${library_folder}/../bin>
                      $<$<CONFIG:Release>:-Wl,--strip-all,--icf=all,-O2>
                      -Wl,--build-id=sha1)  # the id is part of cache keys
  export_only(weft-codegen "weft_codegen_*")
  install(TARGETS weft-codegen LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  if(WEFT_PACK)
    install(FILES ${WEFT_PACK} DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES ${WEFT_PACK} DESTINATION weft COMPONENT python EXCLUDE_FROM_ALL)
    install(FILES ${WEFT_PACK} DESTINATION onnxruntime_ep_weft COMPONENT onnxruntime EXCLUDE_FROM_ALL)
  endif()
endfunction()
