#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# trim_llvm.sh OUT LLVM_CONFIG "TARGET;...": makes libweft-codegen smaller. Writes the source file OUT, whose functions replace parts of
# LLVM and clang that Weft never calls. TARGET: a target of LLVM that Weft uses.
set -eu
out=$1 config=$2 ours=$(echo "$3" | tr ';' ' ')
"$("$config" --bindir)/llvm-nm" --version >/dev/null # fails if llvm-nm is missing, which the pipelines below would hide

# Prints empty LLVMInitialize functions for the targets that Weft does not use. lld calls these functions for every target of LLVM, which
# would link all targets.
set_up_functions() {
  for target in $("$config" --targets-built); do
    case " $ours " in *" $target "*) continue ;; esac
    for part in TargetInfo Target TargetMC AsmParser AsmPrinter Disassembler; do echo "void LLVMInitialize$target$part() {}"; done
  done
}

# left_out ARCHIVE MEMBER...: prints a weak function for each function of these object files of an archive, so that the linker does not need
# the files. If the linker takes a file for another symbol, the file's functions replace the weak ones. A call of a weak function traps,
# and src/codegen/guard.cpp reports the trap. Some weak functions do nothing instead: those that register passes, and those of clang's
# back end, which clang calls although Weft runs its own.
left_out() {
  archive=$1 members=$(shift && echo "$*" | tr ' ' '|')
  [ -e "$("$config" --libdir)/lib$archive.a" ] || return 0
  "$("$config" --bindir)/llvm-nm" -A --defined-only --extern-only -f posix "$("$config" --libdir)/lib$archive.a" |
    sed -nE "s/^.*\[($members)\.cpp\.o\]: (\w+) T .*/\2/p" | sort -u |
    sed -E 's/^.*(initialize|[eE]mitBackendOutput|Embed(Object|Bitcode)).*$/weak void &() {}/; t; s/.*/weak void &() { __builtin_trap(); }/'
}

# Prints weak functions for what Weft never calls: link-time optimisation, Polly, other languages and ABIs, Windows debug information, dumps of the syntax
# tree, indexing, coverage, profiles, passes outside Weft's pipelines, and sanitizers other than those that Weft uses.
never_called() {
  left_out Polly RegisterPasses
  left_out LLVMLTO LTOBackend
  left_out clangCodeGen BackendUtil CGObjCGNU CGObjCMac MicrosoftCXXABI CGCUDANV CGHLSLRuntime
  left_out clangAPINotes APINotesReader APINotesWriter APINotesYAMLCompiler
  left_out clangAnalysis UnsafeBufferUsage
  left_out clangAST TextNodeDumper JSONNodeDumper ASTDumper MicrosoftMangle
  for archive in clangExtractAPI clangInstallAPI clangIndex LLVMCoverage; do left_out $archive '.*'; done
  left_out LLVMInstrumentation MemorySanitizer DataFlowSanitizer HWAddressSanitizer GCOVProfiling NumericalStabilitySanitizer BoundsChecking KCFI
  left_out LLVMipo 'SampleProfile\w*' IROutliner HotColdSplitting PartialInlining MergeFunctions BlockExtractor ThinLTOBitcodeWriter
  left_out LLVMAsmPrinter CodeViewDebug WinException
}

{
  echo '// made by cmake/trim_llvm.sh'
  echo '#define weak __attribute__((weak))'
  echo 'extern "C" {'
  set_up_functions
  case $("$config" --version) in
    19.*) never_called ;; # tested with this version only
  esac
  echo '}'
} >"$out.new"
if cmp -s "$out.new" "$out"; then rm "$out.new"; else mv "$out.new" "$out"; fi
