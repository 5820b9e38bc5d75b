# SPDX-License-Identifier: Apache-2.0
"""Models behind HTTP and gRPC, by the KServe v2 protocol (docs/serving.md). `weft serve` is its command line.

    from weft.serve import Options, Repository, web
    app = web.build(Repository(Options(models=["digits.onnx"])))     # an ASGI application

`pip install weft[serve]` brings what `web` needs, `weft[grpc]` what `rpc` needs; nothing of it is imported here.
"""

from ._options import Options
from ._repository import Repository, Served

__all__ = ["Options", "Repository", "Served"]
