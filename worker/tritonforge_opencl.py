"""What a candidate in OpenCL C imports (docs/backends.md):

kernel = tritonforge_opencl.compile_kernel(source, "add", options=["-cl-mad-enable"])
kernel(global_size=(1024,), local_size=(64,), args=[a, b, out, n, 0.5, tritonforge_opencl.local_memory(256)])
"""

from tritonforge_worker.languages.opencl import compile_kernel, local_memory

__all__ = ["compile_kernel", "local_memory"]
