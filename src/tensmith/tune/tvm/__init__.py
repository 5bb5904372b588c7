"""Apache TVM: kernels timed on a device that runs its RPC server.

Only the modules that run as processes of their own import tvm.
"""
