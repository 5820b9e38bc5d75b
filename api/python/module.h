// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nanobind/nanobind.h>

#include "weft/weft.hpp"

/// What the source files of the Python module share.
namespace weft::python {

/// An instance of the class of weft._errors that belongs to the error's kind.
nanobind::object exception_of(const weft::Error& error);
/// A result as weft/__init__.py takes it from the module: a numpy array, or parts of what is none.
nanobind::object array_of(const weft::Tensor& tensor);
weft::Program program_of(nanobind::handle model);

void bind_batcher(nanobind::module_& m);

}  // namespace weft::python
