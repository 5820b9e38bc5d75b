# SPDX-License-Identifier: Apache-2.0
"""MIGraphX's Python interface over Weft.

    import migraphx

    program = migraphx.parse_onnx("model.onnx")
    program.compile(migraphx.get_target("gpu"))
    parameters = {name: migraphx.generate_argument(shape) for name, shape in program.get_parameter_shapes().items()}
    result = numpy.array(program.run(parameters)[0])
"""
import ctypes
import enum
import functools
import json
import pathlib
import sys
import tempfile
import weakref

from ._library import Handle, call, call_weft, get, hip, made, operators_by_weft, size_list, text_by_weft

__version__ = "2.16.0"

_TYPES = ("tuple", "fp4x2", "bool", "half", "float", "double", "uint8", "int8", "uint16", "int16", "int32", "int64",
          "uint32", "uint64", "fp8e4m3fnuz", "fp8e4m3fn", "fp8e5m2", "bf16", "fp8e5m2fnuz")
# Type codes of numpy and the buffer protocol. Numpy gets arguments of other types as bytes.
_LETTERS = {"bool": "?", "half": "e", "float": "f", "double": "d", "uint8": "B", "int8": "b", "uint16": "H",
            "int16": "h", "int32": "i", "int64": "q", "uint32": "I", "uint64": "Q"}
_NAMES = {**{letter: name for name, letter in _LETTERS.items()}, "l": "int64", "L": "uint64"}
_NUMPY = {"bool": "|b1", "half": "<f2", "float": "<f4", "double": "<f8", "uint8": "|u1", "int8": "|i1",
          "uint16": "<u2", "int16": "<i2", "int32": "<i4", "int64": "<i8", "uint32": "<u4", "uint64": "<u8",
          "bf16": "|V2"}


class shape(Handle):
    """The element type and sizes of an argument: lengths and strides in elements, or with `dyn_dims`, a range for each axis."""

    kind = "shape"
    type_t = enum.IntEnum("type_t", [(name + "_type", number) for number, name in enumerate(_TYPES)])

    class dynamic_dimension:
        """A size from `min` to `max`."""

        def __init__(self, min=0, max=0, optimals=()):
            self.min, self.max, self.optimals = min, max, set(optimals)

        def is_fixed(self):
            return self.min == self.max

        def __eq__(self, other):
            return (self.min, self.max, self.optimals) == (other.min, other.max, other.optimals)

        def __repr__(self):
            return f"[{self.min}, {self.max}, {self.optimals or '{}'}]"

    def __init__(self, type="float", lens=(), strides=None, dyn_dims=None, *, _address=None, _owner=None):
        if _address is not None:
            return super().__init__(_address, _owner)
        number = type if isinstance(type, int) else _TYPES.index(type.removesuffix("_type"))
        if dyn_dims is not None:
            return super().__init__(made("shape_create_dynamic", number, _ranges(dyn_dims)))
        if strides is not None:
            return super().__init__(made("shape_create_with_strides", number, *size_list(lens), *size_list(strides)))
        super().__init__(made("shape_create", number, *size_list(lens)))

    def _list(self, name):
        items, count = ctypes.POINTER(ctypes.c_size_t)(), ctypes.c_size_t()
        call(name, ctypes.byref(items), ctypes.byref(count), self)
        return [items[i] for i in range(count.value)]

    def type(self):
        return shape.type_t(get(ctypes.c_int, "shape_type", self))

    def type_string(self):
        return self.type().name

    def lens(self):
        return self._list("shape_lengths")

    def strides(self):
        return self._list("shape_strides")

    def dyn_dims(self):
        ranges = Handle(made("shape_dyn_dims", self))
        ranges.kind = "dynamic_dimensions"
        count = get(ctypes.c_size_t, "dynamic_dimensions_size", ranges)
        return [_range(get(ctypes.c_void_p, "dynamic_dimensions_get", ranges, i)) for i in range(count)]

    def elements(self):
        return get(ctypes.c_size_t, "shape_elements", self)

    def bytes(self):
        return get(ctypes.c_size_t, "shape_bytes", self)

    def ndim(self):
        return get(ctypes.c_size_t, "shape_ndim", self)

    def type_size(self):
        return shape(self.type(), [1]).bytes()

    def standard(self):
        return get(ctypes.c_bool, "shape_standard", self)

    def dynamic(self):
        return get(ctypes.c_bool, "shape_dynamic", self)

    def packed(self):
        return self.bytes() == self.elements() * self.type_size()

    def transposed(self):
        steps = [step for size, step in zip(self.lens(), self.strides()) if size > 1]
        return steps != sorted(steps, reverse=True)

    def broadcasted(self):
        return 0 in self.strides()

    def scalar(self):
        return all(step == 0 for step in self.strides()) and self.elements() == 1

    def __eq__(self, other):
        return get(ctypes.c_bool, "shape_equal", self, other)

    __hash__ = None

    def __repr__(self):
        if self.dynamic():
            return f"dynamic, {self.type_string()}, {self.dyn_dims()}"
        return f"{self.type_string()}, {self.lens()}, {self.strides()}"


def _range(address):
    low, high = ctypes.c_size_t(), ctypes.c_size_t()
    call_weft("dynamic_dimension_range", ctypes.byref(low), ctypes.byref(high), ctypes.c_void_p(address))
    return shape.dynamic_dimension(low.value, high.value)


def _ranges(dims):
    made_dims = [_one_range(dim if isinstance(dim, shape.dynamic_dimension) else shape.dynamic_dimension(dim, dim))
                 for dim in dims]
    addresses = (ctypes.c_void_p * len(made_dims))(*(handle.address for handle in made_dims))
    result = Handle(made("dynamic_dimensions_create", addresses, len(made_dims)))
    result.kind = "dynamic_dimensions"
    return result


def _view_of(data):
    """Returns (address, shape, owner of the memory) of anything with the buffer protocol or numpy's interface."""
    interface = getattr(data, "__array_interface__", None)
    if interface:
        kind, size = interface["typestr"][1], int(interface["typestr"][2:])
        name = {v[1:]: k for k, v in _NUMPY.items()}.get(f"{kind}{size}")
        if name is None:
            raise TypeError(f"element type {interface['typestr']} is none of MIGraphX's")
        steps = interface.get("strides")
        strides = [step // size for step in steps] if steps else None
        if strides and min(strides) < 0:
            raise TypeError("strides must not be negative")
        return interface["data"][0], shape(name, list(interface["shape"]), strides), data
    view = memoryview(data)
    whole = view if view.c_contiguous else memoryview(view.tobytes()).cast(view.format, view.shape)
    if whole.readonly:
        copy = bytearray(whole.tobytes())
        address = ctypes.addressof((ctypes.c_char * len(copy)).from_buffer(copy)) if copy else 0
        return address, shape(_NAMES[view.format], list(view.shape)), copy
    pixels = (ctypes.c_char * whole.nbytes).from_buffer(whole.cast("B"))
    return ctypes.addressof(pixels), shape(_NAMES[view.format], list(view.shape)), (pixels, data)


class argument(Handle):
    """A shape and memory. argument(array) views the memory of a numpy array; numpy.array(argument) copies to an array."""

    kind = "argument"

    def __init__(self, data=None, *, _address=None, _owner=None):
        if _address is not None:
            return super().__init__(_address, _owner)
        if isinstance(data, shape):
            return super().__init__(made("argument_create_empty", data))
        address, sizes, self._memory = _view_of(data)
        super().__init__(made("argument_create", sizes, ctypes.c_void_p(address)))

    def get_shape(self):
        return shape(_address=get(ctypes.c_void_p, "argument_shape", self), _owner=self)

    def data_ptr(self):
        return get(ctypes.c_void_p, "argument_buffer", self) or 0

    @property
    def __array_interface__(self):
        sizes = self.get_shape()
        name, width = _TYPES[sizes.type()], sizes.type_size()
        return {"version": 3, "shape": tuple(sizes.lens()), "typestr": _NUMPY.get(name, "|u1"),
                "data": (self.data_ptr(), False), "strides": tuple(step * width for step in sizes.strides())}

    def tolist(self):
        sizes = self.get_shape()
        letter = _LETTERS[_TYPES[sizes.type()]]
        raw = memoryview((ctypes.c_char * sizes.bytes()).from_address(self.data_ptr()) if sizes.bytes() else b"")
        flat = raw.cast("B").cast(letter)
        return [flat[get(ctypes.c_size_t, "shape_index", sizes, i)] for i in range(sizes.elements())]

    def save(self, path):
        call("argument_save", self, path)

    @staticmethod
    def load(path):
        return argument(_address=made("argument_load", path))

    def __eq__(self, other):
        return get(ctypes.c_bool, "argument_equal", self, other)

    __hash__ = None

    def __repr__(self):
        return f"{self.tolist()}"


def create_argument(s, values):
    """Makes an argument of shape `s` with these values."""
    result = argument(s)
    letter = _LETTERS[_TYPES[s.type()]]
    memory = memoryview((ctypes.c_char * s.bytes()).from_address(result.data_ptr())).cast("B").cast(letter)
    for i, value in enumerate(values):
        memory[get(ctypes.c_size_t, "shape_index", s, i)] = value
    return result


def generate_argument(s, seed=0):
    return argument(_address=made("argument_generate", s, seed))


def fill_argument(s, value):
    return create_argument(s, [value] * s.elements())


def argument_from_pointer(s, address):
    """Makes an argument that views memory at an address; the memory must outlive it."""
    return argument(_address=made("argument_create", s, ctypes.c_void_p(address)))


# Makes an argument in memory that HIP allocates: GPU memory, or host memory with Weft's HIP facade. If `host` is set,
# HIP is missing or the argument is empty, uses plain memory.
def allocate_gpu(s, host=False):
    if host or hip is None or s.bytes() == 0:
        return argument(s)
    data = ctypes.c_void_p()
    if error := hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(s.bytes())):
        raise RuntimeError(f"hipMalloc of {s.bytes()} bytes failed with {error}")
    result = argument_from_pointer(s, data.value)
    weakref.finalize(result, hip.hipFree, data)
    return result


def _copied(a, result):
    whichever_way = 4
    size = a.get_shape().bytes()
    if hip is None:
        ctypes.memmove(result.data_ptr(), a.data_ptr(), size)
    elif error := hip.hipMemcpy(*map(ctypes.c_void_p, (result.data_ptr(), a.data_ptr())), ctypes.c_size_t(size), whichever_way):
        raise RuntimeError(f"hipMemcpy of {size} bytes failed with {error}")
    return result


def to_gpu(a, host=False):
    return _copied(a, allocate_gpu(a.get_shape(), host))


def from_gpu(a):
    return _copied(a, argument(a.get_shape()))


def gpu_sync():
    """Waits for all work on the GPU, whichever stream it is queued on."""
    if hip is not None and (error := hip.hipDeviceSynchronize()):
        raise RuntimeError(f"hipDeviceSynchronize failed with {error}")


class target(Handle):
    kind = "target"


def get_target(name):
    """Returns the target of a compilation: "gpu", "cpu" or "ref"."""
    return target(made("target_create", name))


class op(Handle):
    """An operator: op("reduce_mean", axes=[1])."""

    kind = "operation"

    def __init__(self, name, **attributes):
        # operation_create takes a printf format, so each % is doubled.
        super().__init__(made("operation_create", name, json.dumps(attributes, default=int).replace("%", "%%")))
        self._name = name

    def name(self):
        return self._name


class instruction_ref(Handle):
    kind = "instruction"

    def shape(self):
        result = ctypes.c_void_p()
        call_weft("instruction_shape", ctypes.byref(result), self)
        return shape(_address=result.value)


def _instructions(args):
    addresses = (ctypes.c_void_p * len(args))(*(arg.address for arg in args))
    result = Handle(made("instructions_create", addresses, len(args)))
    result.kind = "instructions"
    return result


class module(Handle):
    """A program's module, as program.get_main_module() returns it."""

    def print(self):
        call("module_print", self)

    def add_instruction(self, op, args, mod_args=()):
        if mod_args:
            raise RuntimeError(f"operator '{op.name()}' with modules cannot be built by hand here")
        return instruction_ref(made("module_add_instruction", self, op, _instructions(args)))

    def add_literal(self, data):
        address, sizes, keep = _view_of(data)
        return instruction_ref(made("module_add_literal", self, sizes, ctypes.c_void_p(address)))

    def add_parameter(self, name, s):
        return instruction_ref(made("module_add_parameter", self, name, s))

    def add_return(self, args):
        return instruction_ref(made("module_add_return", self, _instructions(args)))


class program(Handle):
    kind = "program"

    def __init__(self, *, _address=None, _is_compiled=False):
        super().__init__(_address or made("program_create"))
        self._is_compiled = _is_compiled

    def get_main_module(self):
        return module(get(ctypes.c_void_p, "program_get_main_module", self), owner=self)

    def create_module(self, name):
        return module(get(ctypes.c_void_p, "program_create_module", self, name), owner=self)

    def get_parameter_shapes(self):
        """Returns the parameters' shapes by name."""
        shapes = Handle(made("program_get_parameter_shapes", self))
        shapes.kind = "program_parameter_shapes"
        count = get(ctypes.c_size_t, "program_parameter_shapes_size", shapes)
        names = (ctypes.c_char_p * count)()
        if count:
            call("program_parameter_shapes_names", names, shapes)
        return {name.decode(): shape(_address=get(ctypes.c_void_p, "program_parameter_shapes_get", shapes, name),
                                     _owner=shapes) for name in names}

    def get_parameter_names(self):
        return list(self.get_parameter_shapes())

    def get_output_shapes(self):
        shapes = Handle(made("program_get_output_shapes", self))
        shapes.kind = "shapes"
        count = get(ctypes.c_size_t, "shapes_size", shapes)
        return [shape(_address=get(ctypes.c_void_p, "shapes_get", shapes, i), _owner=shapes) for i in range(count)]

    def compile(self, t, offload_copy=True, fast_math=True, exhaustive_tune=False):
        options = Handle(made("compile_options_create"))
        options.kind = "compile_options"
        call("compile_options_set_offload_copy", options, bool(offload_copy))
        call("compile_options_set_fast_math", options, bool(fast_math))
        call("compile_options_set_exhaustive_tune_flag", options, bool(exhaustive_tune))
        call("program_compile", self, t, options)
        self._is_compiled = True

    def is_compiled(self):
        return self._is_compiled

    def run(self, parameters):
        """Runs the program on a dict of arguments or arrays by name and returns the results. Other Python threads continue meanwhile."""
        return self._results("program_run", parameters)

    def run_async(self, parameters, queue=0, queue_name="ihipStream_t"):
        """Queues a run on a stream given by its address. Results are valid when the stream's work has ended."""
        return self._results("program_run_async", parameters, ctypes.c_void_p(queue), queue_name.encode())

    def _results(self, function, parameters, *queue):
        given = _parameters(parameters)
        results = Handle(made(function, self, given, *queue))
        results.kind = "arguments"
        count = get(ctypes.c_size_t, "arguments_size", results)
        return [argument(_address=get(ctypes.c_void_p, "arguments_get", results, i), _owner=(results, given))
                for i in range(count)]

    def sort(self):
        call("program_sort", self)

    def text(self):
        """Returns the program in Weft's text form, or the report of a loaded program."""
        return text_by_weft("program_text", self)

    def print(self):
        print(self.text(), end="")

    __repr__ = text

    def clone(self):
        copy = program(_is_compiled=self._is_compiled)
        call("program_assign_to", copy, self)
        return copy

    def __eq__(self, other):
        return get(ctypes.c_bool, "program_equal", self, other)

    __hash__ = None


def _parameters(parameters):
    result = Handle(made("program_parameters_create"))
    result.kind = "program_parameters"
    arguments = {name: value if isinstance(value, argument) else argument(value) for name, value in parameters.items()}
    for name, value in arguments.items():
        call("program_parameters_add", result, name, value)
    result.arguments = arguments  # their memory is not copied, so it must stay alive
    return result


def _onnx_options(default_dim_value, default_dyn_dim_value, map_input_dims, map_dyn_input_dims, external_data_path):
    options = Handle(made("onnx_options_create"))
    options.kind = "onnx_options"
    if default_dim_value:
        call("onnx_options_set_default_dim_value", options, default_dim_value)
    if default_dyn_dim_value and not default_dyn_dim_value.is_fixed():
        call("onnx_options_set_default_dyn_dim_value", options, _one_range(default_dyn_dim_value))
    for name, dims in (map_input_dims or {}).items():
        call("onnx_options_set_input_parameter_shape", options, name, *size_list(dims))
    for name, dims in (map_dyn_input_dims or {}).items():
        call("onnx_options_set_dyn_input_parameter_shape", options, name, _ranges(dims))
    if external_data_path:
        call("onnx_options_set_external_data_path", options, external_data_path)
    return options


def _one_range(dim):
    if dim.optimals:
        optimals = Handle(made("optimals_create", *size_list(sorted(dim.optimals))))
        optimals.kind = "optimals"
        result = Handle(made("dynamic_dimension_create_min_max_optimals", dim.min, dim.max, optimals))
    else:
        result = Handle(made("dynamic_dimension_create_min_max", dim.min, dim.max))
    result.kind = "dynamic_dimension"
    return result


def _warn_of_idle(skip_unknown_operators, print_program_on_error):
    if skip_unknown_operators:
        _warn("skip_unknown_operators changes nothing: a model with operators that are not known is refused")
    if print_program_on_error:
        _warn("print_program_on_error changes nothing: the error names the nodes; `weft inspect --ir` prints programs")


@functools.cache  # each text once per process
def _warn(text):
    print("migraphx (weft): warning:", text, file=sys.stderr)


def parse_onnx(filename, default_dim_value=0, default_dyn_dim_value=None, map_input_dims=None, map_dyn_input_dims=None,
               skip_unknown_operators=False, print_program_on_error=False, max_loop_iterations=10,
               limit_max_iterations=65535, use_debug_symbols=False):
    """Reads a model and returns its program. Unknown operators are always refused; the error names all of them."""
    _warn_of_idle(skip_unknown_operators, print_program_on_error)
    options = _onnx_options(default_dim_value, default_dyn_dim_value, map_input_dims, map_dyn_input_dims, None)
    if max_loop_iterations != 10:
        call("onnx_options_set_default_loop_iterations", options, max_loop_iterations)
    if limit_max_iterations != 65535:
        call("onnx_options_set_limit_loop_iterations", options, limit_max_iterations)
    return program(_address=made("parse_onnx", filename, options))


def parse_onnx_buffer(buffer, default_dim_value=0, default_dyn_dim_value=None, map_input_dims=None,
                      map_dyn_input_dims=None, skip_unknown_operators=False, print_program_on_error=False,
                      external_data_path=""):
    _warn_of_idle(skip_unknown_operators, print_program_on_error)
    options = _onnx_options(default_dim_value, default_dyn_dim_value, map_input_dims, map_dyn_input_dims,
                            external_data_path)
    return program(_address=made("parse_onnx_buffer", ctypes.c_char_p(bytes(buffer)), len(buffer), options))


def parse_tf(filename, is_nhwc=True, batch_size=1, map_input_dims=None, output_names=()):
    """Reads a frozen graph or a SavedModel and returns its program. `is_nhwc`: the graph has NHWC; values of four axes get NCHW."""
    options = Handle(made("tf_options_create"))
    options.kind = "tf_options"
    call("tf_options_set_nhwc", options, is_nhwc)
    call("tf_options_set_default_dim_value", options, batch_size)
    for name, dims in (map_input_dims or {}).items():
        call("tf_options_set_input_parameter_shape", options, name, *size_list(dims))
    if output_names:
        names = (ctypes.c_char_p * len(output_names))(*(name.encode() for name in output_names))
        call("tf_options_set_output_names", options, names, len(output_names))
    return program(_address=made("parse_tf", filename, options))


def _file_options(format):
    options = Handle(made("file_options_create"))
    options.kind = "file_options"
    call("file_options_set_file_format", options, format)
    return options


def load(filename, format="msgpack"):
    return program(_address=made("load", filename, _file_options(format)), _is_compiled=True)


def save(p, filename, format="msgpack"):
    call("save", p, filename, _file_options(format))


def load_buffer(buffer, format="msgpack"):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program"
        path.write_bytes(buffer)
        return load(path, format)


def save_buffer(p, format="msgpack"):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "program"
        save(p, path, format)
        return path.read_bytes()


def _op_names(names):
    result = Handle(made("quantize_op_names_create"))
    result.kind = "quantize_op_names"
    for name in names:
        call("quantize_op_names_add", result, name)
    return result


def quantize_fp16(prog, ins_names=("all",)):
    call("quantize_fp16_with_op_names", prog, _op_names(ins_names))


def quantize_bf16(prog, ins_names=("all",)):
    call("quantize_bf16_with_op_names", prog, _op_names(ins_names))


def _calibrated(kind, prog, t, calibration, ins_names=()):
    options = Handle(made(f"quantize_{kind}_options_create"))
    options.kind = f"quantize_{kind}_options"
    for name in ins_names:
        call(f"quantize_{kind}_options_add_op_name", options, name)
    for sample in [_parameters(sample) for sample in calibration]:
        call(f"quantize_{kind}_options_add_calibration_data", options, sample)
    call(f"quantize_{kind}", prog, t, options)


def quantize_int8(prog, t, calibration=(), ins_names=("dot", "convolution")):
    """Quantises to 8-bit integers. `calibration`: dicts of arguments or arrays, examples of the inputs."""
    _calibrated("int8", prog, t, calibration, ins_names)


def quantize_fp8(prog, t, calibration=()):
    """Quantises to floats of 8 bits (e4m3). CPUs multiply the rounded values in f32, which saves no time."""
    _calibrated("fp8", prog, t, calibration)


def quantize_int4_weights(prog):
    """Rounds weights of products to 4 bits, in blocks of 32; needs no data."""
    call("quantize_int4_weights", prog)


def get_onnx_operators():
    count = get(ctypes.c_size_t, "get_onnx_operators_size")
    return [get(ctypes.c_char_p, "get_onnx_operator_name_at_index", i).decode() for i in range(count)]


def get_operators():
    """Returns the names of the operators that programs built by hand may use."""
    return operators_by_weft()
