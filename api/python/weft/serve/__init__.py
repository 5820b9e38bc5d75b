# SPDX-License-Identifier: Apache-2.0
"""Serves models over HTTP and gRPC by the KServe v2 protocol (docs/serving.md). `weft serve` is the command for it.

    from weft.serve import Options, Repository, web
    app = web.build(Repository(Options(models=["digits.onnx"])))     # an ASGI application

`pip install weft[serve]` installs the packages that `web` needs, `weft[grpc]` those of `rpc`. This module imports none of them.
"""

from ._options import Options
from ._repository import Repository, Served

__all__ = ["Options", "Repository", "Served"]
