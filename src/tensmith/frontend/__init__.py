"""Reading models into TensIR: ONNX files, PyTorch modules."""
